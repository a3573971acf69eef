import pytest
import transformers.utils.chat_template_utils
from word_tokenizer import CHAT_TEMPLATE, encode, word_tokenizer

from grpo_core.config.data import PromptConfig
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.models.render import PromptRenderer

PROBLEM = "Sam has 3 apples ."


def renderer(config=None, **tokenizer):
    return PromptRenderer(word_tokenizer(**tokenizer), config or PromptConfig())


def test_the_chat_template_writes_its_own_special_tokens_and_opens_the_answer():
    ids = renderer(chat_template=CHAT_TEMPLATE).render(PROBLEM)
    assert ids == encode("<turn> user : Sam has 3 apples . <turn> Answer :")


def test_system_suffix_and_instruction_reach_the_chat():
    config = PromptConfig(system="Think first", instruction="Answer :")
    ids = renderer(config, chat_template=CHAT_TEMPLATE).render(PROBLEM, "Think")
    assert ids == encode(
        "<turn> system : Think first <turn> user : Sam has 3 apples . Think Answer : "
        "<turn> Answer :"
    )


def test_a_jinja_text_begins_with_what_the_tokenizer_puts_first():
    ids = renderer(PromptConfig(template="{{ problem }} Answer :")).render(PROBLEM)
    assert ids == encode("<bos> Sam has 3 apples . Answer :")


def test_a_template_that_writes_bos_itself_gets_it_once():
    ids = renderer(PromptConfig(template="<bos> {{ problem }}")).render(PROBLEM)
    assert ids == encode("<bos> Sam has 3 apples .")


def test_without_chat_template_the_error_says_what_to_write():
    with pytest.raises(ConfigError, match=r"no chat template\nhint: .*Jinja"):
        renderer()


def test_a_chat_template_that_refuses_the_system_role_is_a_config_error():
    template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(ConfigError, match=r"System role not supported\nhint: .*prompt.system"):
        renderer(PromptConfig(system="Think"), chat_template=template).render(PROBLEM)


def test_a_chat_template_that_asks_for_today_gets_the_same_date_on_every_day(monkeypatch):
    """As Llama 3's templates do."""
    template = "{{ strftime_now('%d %b %Y') }}{% for m in messages %} {{ m.content }}{% endfor %}"
    monkeypatch.setattr(transformers.utils.chat_template_utils, "datetime", None)  # no real clock
    assert renderer(chat_template=template).text(PROBLEM) == f"01 Jan 2025 {PROBLEM}"


@pytest.mark.parametrize("chance", ["{{ [1, 2] | random }}", "{{ lipsum() }}"])
def test_a_template_that_draws_at_random_is_refused(chance):
    with pytest.raises(ConfigError, match=r"chat template draws at random .*(random|lipsum)"):
        renderer(chat_template=CHAT_TEMPLATE + chance)
    with pytest.raises(ConfigError, match=r"prompt.template: line 1: .*(random|lipsum)"):
        renderer(PromptConfig(template="{{ problem }}" + chance)).text(PROBLEM)


def test_an_unknown_word_names_problem_and_word():
    with pytest.raises(DataContractError, match=r"'Sam has 3 pears \.': 'pears' is not in"):
        renderer(PromptConfig(template="{{ problem }}")).render("Sam has 3 pears .")


def test_an_unknown_token_that_doubles_as_bos_is_no_unknown_word():
    """As in GPT-2, OPT and SmolLM: one id for unknown and for the begin of a text."""
    tokenizer = word_tokenizer()
    tokenizer.unk_token = "<bos>"
    for template in ("{{ problem }}", "<bos> {{ problem }} <bos>"):
        PromptRenderer(tokenizer, PromptConfig(template=template)).render(PROBLEM)


def test_a_tokenizer_that_ends_every_text_is_refused():
    with pytest.raises(ConfigError, match="ends every text"):
        renderer(PromptConfig(template="{{ problem }}"), ends_texts=True).render(PROBLEM)


def test_an_empty_prompt_is_refused():
    with pytest.raises(DataContractError, match="no token"):
        renderer(chat_template="{{ '' }}").render(PROBLEM)


def test_decoding_leaves_out_special_tokens():
    assert renderer(chat_template=CHAT_TEMPLATE).decode(encode("Sam has 3 <turn> <eos>")) == (
        "Sam has 3"
    )


def test_decoding_is_cut_before_the_first_stop_string():
    config = PromptConfig(template="{{ problem }}", stop=("apples .", "has"))
    decode = renderer(config).decode
    assert decode(encode("Sam 3 apples . Answer")) == "Sam 3 "
    assert decode(encode("Sam has 3 apples .")) == "Sam "
    assert decode(encode("Sam 3")) == "Sam 3"


def test_rendering_is_what_transformers_renders_itself():
    tokenizer = word_tokenizer(chat_template=CHAT_TEMPLATE)
    want = tokenizer.apply_chat_template(
        [{"role": "user", "content": PROBLEM}], add_generation_prompt=True, return_dict=False
    )
    assert list(PromptRenderer(tokenizer, PromptConfig()).render(PROBLEM)) == want
