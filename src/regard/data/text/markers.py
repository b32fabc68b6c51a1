"""What stands around a text in a language model's stream, and before a prompt.

                        around each text        before a prompt
ours, separated         … </s>                  </s>: what the model saw before every text it learnt from
ours, not separated     …                       nothing: one long text, as of a single author
Llama                   <s> … </s>              <s>
GPT-2                   … <|endoftext|>         nothing, as its users know it
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.text.tokenizers import FOREIGN, Tokenizer


@dataclass(frozen=True)
class Markers:
    """Ids before and after each text, before a prompt, and before a prompt of nothing; `end` stops a continuation."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    opening: tuple[int, ...] = ()
    nothing: tuple[int, ...] = ()
    end: int | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, separated: bool = True) -> Markers:
        """The marks of a tokenizer; where texts are not separated, only what its models cannot do without."""
        special_tokens = tokenizer.special_tokens
        end = () if special_tokens.eos is None else (special_tokens.eos,)
        if tokenizer.kind != FOREIGN:
            return cls(after=end, opening=end, nothing=end, end=special_tokens.eos) if separated else cls()
        begin = () if special_tokens.bos is None else (special_tokens.bos,)
        framed = begin if begin and tuple(tokenizer.frame([]).ids[:1]) == begin else ()
        after = end if separated else ()
        return cls(before=framed, after=after, opening=framed, nothing=framed or begin or end, end=special_tokens.eos)
