-- name: assert_ref_cache_version_is_read
-- kind: audit
-- severity: warn
-- grain: one artefact whose reference log-probs lie in a cache of an older version
-- depends_on: artifact_files
-- params:
--     kl_enabled: boolean = false; whether the run reads reference log-probs
-- why: this release does not read that cache, so that nothing is proved about the reference
--     log-probs of these rollouts; training again proves them
-- columns:
--     stage: stage
--     key: key of the artefact
--     content: content digest of the generation
--     ref_fingerprint: directory of the cache
select distinct
    stage,
    key,
    content,
    ref_fingerprint
from artifact_files
where $kl_enabled::boolean and has_older_cache and ref_fingerprint != ''
order by stage, key, content
