"""The words that stories are made of: people, things, and fixed counts of neither."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in a story, with the pronouns that a template may use."""

    name: str
    he: str
    him: str

    @property
    def He(self) -> str:  # noqa: N802 - a template writes {p.He} at the start of a sentence
        """The pronoun that starts a sentence."""
        return self.he.capitalize()


@dataclass(frozen=True, slots=True)
class Thing:
    """What is counted, in the singular and the plural."""

    one: str
    many: str


PEOPLE: tuple[Person, ...] = (
    Person("Tom", "he", "him"),
    Person("Ben", "he", "him"),
    Person("Sam", "he", "him"),
    Person("Leo", "he", "him"),
    Person("Mia", "she", "her"),
    Person("Ann", "she", "her"),
    Person("Eva", "she", "her"),
    Person("Zoe", "she", "her"),
)

THINGS: tuple[Thing, ...] = (
    Thing("apple", "apples"),
    Thing("pear", "pears"),
    Thing("book", "books"),
    Thing("card", "cards"),
    Thing("coin", "coins"),
    Thing("pen", "pens"),
    Thing("shell", "shells"),
    Thing("stamp", "stamps"),
    Thing("toy", "toys"),
    Thing("cake", "cakes"),
)

DOLLAR = Thing("dollar", "dollars")
PAGE = Thing("page", "pages")
