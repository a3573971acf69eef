"""The phrases by which a text commits to an answer, denies one, doubts one or takes one back."""

import re
from typing import Final

_ANSWER: Final = r"(?:answer|ans|result|solution|option|choice)"
LABEL: Final = re.compile(
    r"(?<![\"'\w\\])(?P<final>(?:the\s+|my\s+|our\s+|your\s+)?(?:final|correct|right|ultimate)\s+)?"
    rf"(?P<word>{_ANSWER})s?(?![\"'\w])"
    r"(?P<gap>(?:\s+(?:to|for|of)\s[^\n.:=?!]{0,80}?|[^\n.:=?!\d$\\{}]{0,80}?))"
    r"(?P<link>\*{0,2}\s*(?::|=|\s-\s|\u2014)\s*\}?\s*\*{0,2}"
    r"|\b(?:isn't|wasn't|can't\s+be|cannot\s+be|couldn't\s+be|is|are|was|be|equals|becomes)\b"
    r"(?:\s+equal\s+to|\s+given\s+by)?\s*:?\s*\*{0,2}"
    r"|\*{0,2}\s*\n)",
    re.IGNORECASE,
)
FOREIGN_LABEL: Final = re.compile(
    r"(?:\u6700\u7ec8|\u6700\u7d42)?(?:\u7b54\u6848|\u7b54\u3048|\u7d50\u679c|\u7ed3\u679c)"
    r"\s*(?:\u662f|\u4e3a|\u70ba|\u306f|:|=)+\s*|\u7b54\s*:\s*"
    r"|(?:\uc815\ub2f5|\ub2f5)\s*(?:\uc740|:)\s*"
    r"|(?:respuesta|risposta|resposta|r[e\u00e9]ponse|antwort|l[o\u00f6]sung|antwoord|cevap"
    r"|odpowied[z\u017a]|svar|vastaus)(?:\s+(?:final|finale|correcta|corretta|correta))?"
    r"(?:\s+(?:es|est|ist|lautet|e|\u00e8|\u00e9|is|to|\u00e4r|er|on)\b\s*:?|\s*:)\s*"
    r"|\u043e\u0442\u0432\u0435\u0442\s*(?:[:=\u2014-]|\u0440\u0430\u0432\u0435\u043d)\s*"
    r"|(?:\u0627\u0644\u062c\u0648\u0627\u0628|\u0627\u0644\u0625\u062c\u0627\u0628\u0629)\s*"
    r"(?:\u0627\u0644\u0646\u0647\u0627\u0626\u064a\s*|\u0627\u0644\u0646\u0647\u0627\u0626\u064a\u0629\s*)?"
    r"(?:\u0647\u0648|\u0647\u064a|:)\s*"
    r"|\u0909\u0924\u094d\u0924\u0930\s*(?:\u0939\u0948|:)?\s*"
    r"|\u0111\u00e1p\s+\u00e1n\s*(?:l\u00e0|:)\s*",
    re.IGNORECASE,
)
_HINTS: Final = "respuesta risposta resposta reponse antwo losung cevap odpowied svar vastaus"
FOREIGN_HINTS: Final = tuple(_HINTS.split())
NEGATION: Final = re.compile(
    r"\b(?:not|isn't|is\s*not|aren't|wasn't|cannot|can't|couldn't|never|neither|nor|no longer"
    r"|anything but|other than|rather than|instead of|different from)\b|n't\b|\u4e0d\u662f",
    re.IGNORECASE,
)
SUPPOSED: Final = re.compile(
    r"\b(?:if|suppose|supposing|assume|assuming|whether|unless|say|wrong|incorrect|false|doubt"
    r"|don't\s+think|do\s+not\s+think|don't\s+believe|not\s+(?:think|believe|say)"
    r"|not\s+true|unlikely|thought|guessed|(?:might|may|could|would)\s+(?:\w+\s+)?"
    r"(?:think|guess|say|expect|believe))"
    r"(?:\s+(?:that|to\s+say|to\s+say\s+that))?(?:\s+\w+){0,2}\s*\Z",
    re.IGNORECASE,
)
REVERSED: Final = re.compile(
    r"\b(?:is|are)\s+(?P<not>not\s+)?(?:therefore\s+|thus\s+|then\s+)?(?:the|our|my)\s+"
    r"(?:final\s+|correct\s+|right\s+)?answers?\b(?!\s*(?::|=|to\b|is\b|that\b|we\b))",
    re.IGNORECASE,
)
AFTERTHOUGHT: Final = re.compile(
    r"[\s.,;?!$*)]*(?:\b(?:or|maybe|perhaps|possibly)\b"
    r"(?![\s,$]*(?:approximately|approx|about|roughly|around|equivalently|simply|in\b|\\approx))"
    r"[^\n.\d]{0,40}?|(?:\b(?:if|when)\b[^\n.]{0,60}?[,;]\s*)?\b(?:otherwise|else)\b[\s,:]*(?:(?:it|the\s+answer)\s*(?:is|'s|would\s+be)\s+)?"
    r"|(?<=\?)\s+)(?P<value>-?\d[\d.,]*)(?=\s*(?:[$*)]*[.,;!?]|\Z|\n|[A-Za-z]))",
    re.IGNORECASE,
)
BUT: Final = re.compile(
    r"\b(?:but\s+(?:rather\s+|instead\s+|actually\s+)?|rather,?\s+|it\s+is\s+|it's\s+|instead,?\s+"
    r"|;\s*it\s+is\s+)",
    re.IGNORECASE,
)
RETRACTION: Final = re.compile(
    r"\b(?:wait|hold\s+on|hang\s+on|actually|correction|corrected|correcting|re-?check\w*"
    r"|double-?check\w*|re-?comput\w*|re-?calculat\w*|re-?consider\w*|re-?examin\w*|re-?read\w*"
    r"|re-?do\w*|on\s+(?:second\s+thought|reflection|closer)|mistake\w*|mistaken|error|erroneous"
    r"|oops|whoops|sorry|apolog\w+|scratch\s+that|strike\s+that|never\s+mind|disregard|ignore\s+that"
    r"|wrong|incorrect|not\s+(?:right|correct|quite)|revis\w+|instead|should\s+have|i\s+mis\w+"
    r"|let\s+me\s+(?:re|try|correct|fix|check)\w*|hmm+|no,)\b|\u4e0d\u5bf9|\u7b49\u7b49"
    r"|\u66f4\u6b63|\u9519\u4e86|\u91cd\u65b0|(?<=\s)no,",
    re.IGNORECASE,
)
WITHDRAWAL: Final = re.compile(
    r"\b(?:that|this|which|it|above|answer|box|value|result)"
    r"(?:(?:'s|\s+is|\s+was|\s+must\s+be)\s+(?:\w+\s+)?"
    r"(?:wrong|incorrect|mistaken|a\s+mistake|an\s+error|not\s+right|not\s+correct)"
    r"|(?:\s+can't\s+be|\s+cannot\s+be|\s+isn't|\s+is\s+not)\s+(?:\w+\s+)?(?:right|correct))\b"
    r"|\bscratch\s+that|\bstrike\s+that|\bi\s+(?:made\s+(?:a|an)\s+\w*\s*(?:mistake|error)|retract)"
    r"|\bdisregard\s+(?:that|this|the)|\bwait,?\s+no\b|\bno,?\s+wait\b|\bactually,?\s+no\b|\boops\b",
    re.IGNORECASE,
)
CONCLUSION: Final = re.compile(
    r"\b(?:so|thus|hence|therefore|finally|consequently|in\s+total|altogether|overall"
    r"|in\s+conclusion|it\s+follows)\b|\u6240\u4ee5|\u56e0\u6b64",
    re.IGNORECASE,
)
DENIAL: Final = re.compile(r"\b(?:wrong|incorrect|false|doubt|unlikely|mistaken)\b", re.IGNORECASE)
POSSIBLE: Final = re.compile(
    r"\b(?:could|might|may|possibly|perhaps|maybe|probably|either|one\s+of|between|guess)\b",
    re.IGNORECASE,
)
HEADING: Final = re.compile(
    r"(?:step|part|case|question|problem|section|solution|explanation|exercise|example|method"
    r"|approach|given|conclusion|summary|verification|check|note)\b",
    re.IGNORECASE,
)
SENTENCE_END: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bDr)(?<!\bMr)[.!?](?=\s|\Z|[\"')\]*$])"
    r"|[\u3002\uff01\uff1f\u061f]|\n"
)
CLAUSE_END: Final = re.compile(
    r"(?:,|;|\s-|\s\u2014)\s+(?=[A-Za-z])|\s+\((?=\w)|\s+(?:because|since|as|which|where"
    r"|so|thus|due|after|when|if|for|by|that)\b|\s+per\b|:\s",
    re.IGNORECASE,
)
