"""How people write dates in English, German, French and Spanish: names of days and months, and forms to put them in.

A form is a template over these fields; it is used only where its condition holds, so that no text has two readings:

    {d} 3   {dd} 03   {m} 3   {mm} 03   {y} 2021   {month} March   {mon} Mar   {weekday} Wednesday   {wd} Wed
    {ordinal} 3rd, 1er, 1.º or the plain number where the language has none   {spelled} third, dritte, trois, tres

Numbers between slashes or dashes mean different days in different countries, so they are written only where the day
cannot be a month (after the 12th) or both are equal; numbers between dots are always day, month, year.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Calendar:
    """The words and forms of one language; `clear_forms` are those for clear days only (see above)."""

    weekdays: tuple[str, ...]
    short_weekdays: tuple[str, ...]
    months: tuple[str, ...]
    short_months: tuple[str, ...]
    spelled: tuple[str, ...]
    ordinal: Callable[[int], str]
    forms: tuple[str, ...]
    clear_forms: tuple[str, ...]
    variants: dict[str, str] = field(default_factory=dict)  # other spellings in use

    def forms_for(self, day: datetime.date) -> tuple[str, ...]:
        """The forms in which this day can be written without a second reading."""
        clear = day.day > 12 or day.day == day.month
        return self.forms + self.clear_forms if clear else self.forms

    def write(self, day: datetime.date, form: str) -> str:
        """A day in one form."""
        return form.format(
            d=day.day,
            dd=f"{day.day:02}",
            m=day.month,
            mm=f"{day.month:02}",
            y=day.year,
            month=self.months[day.month - 1],
            mon=self.short_months[day.month - 1],
            weekday=self.weekdays[day.weekday()],
            wd=self.short_weekdays[day.weekday()],
            ordinal=self.ordinal(day.day),
            spelled=self.spelled[day.day - 1],
        )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _english_ordinal(day: int) -> str:
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


_ENGLISH_SPELLED = (
    *_words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"),
    *_words("fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third"),
    *_words("twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"),
)
_GERMAN_SPELLED = (
    *_words("erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte dreizehnte vierzehnte"),
    *_words("fünfzehnte sechzehnte siebzehnte achtzehnte neunzehnte zwanzigste einundzwanzigste zweiundzwanzigste"),
    *_words("dreiundzwanzigste vierundzwanzigste fünfundzwanzigste sechsundzwanzigste siebenundzwanzigste"),
    *_words("achtundzwanzigste neunundzwanzigste dreißigste einunddreißigste"),
)
_FRENCH_SPELLED = (
    *_words("premier deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept"),
    *_words("dix-huit dix-neuf vingt vingt-et-un vingt-deux vingt-trois vingt-quatre vingt-cinq vingt-six"),
    *_words("vingt-sept vingt-huit vingt-neuf trente trente-et-un"),
)
_SPANISH_SPELLED = (
    *_words("primero dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis"),
    *_words("diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco"),
    *_words("veintiséis veintisiete veintiocho veintinueve treinta"),
    "treinta y uno",
)
_ISO_FORMS = ("{y}-{mm}-{dd}", "{y}/{mm}/{dd}")

CALENDARS = {
    "en": Calendar(
        weekdays=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        short_weekdays=("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
        months=_words("January February March April May June July August September October November December"),
        short_months=_words("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
        spelled=_ENGLISH_SPELLED,
        ordinal=_english_ordinal,
        forms=(
            *("the {ordinal} of {month} {y}", "the {ordinal} of {month}, {y}", "{ordinal} of {month} {y}"),
            *("{month} {ordinal}, {y}", "{month} {d}, {y}", "{month} {d} {y}", "{month} the {ordinal}, {y}"),
            *("{d} {month} {y}", "{ordinal} {month} {y}", "{d} {mon} {y}", "{dd} {mon} {y}", "{mon} {d}, {y}"),
            *("{weekday}, {month} {d}, {y}", "{weekday}, {d} {month} {y}", "{weekday} the {ordinal} of {month} {y}"),
            *("{weekday} {month} {ordinal}, {y}", "{wd}, {d} {mon} {y}", "{wd} {mon} {d} {y}", "{wd}, {mon} {d}, {y}"),
            *("{dd}-{mon}-{y}", "{d}-{mon}-{y}", "{y} {month} {d}", "{month} {dd}, {y}", "on {month} {d}, {y}"),
            *("the {spelled} of {month} {y}", "{month} {spelled}, {y}", *_ISO_FORMS),
        ),
        clear_forms=("{m}/{d}/{y}", "{mm}/{dd}/{y}"),
    ),
    "de": Calendar(
        weekdays=("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
        short_weekdays=("Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"),
        months=_words("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        short_months=("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."),
        spelled=_GERMAN_SPELLED,
        ordinal=lambda day: f"{day}.",
        forms=(
            *("{d}. {month} {y}", "{dd}. {month} {y}", "den {d}. {month} {y}", "der {d}. {month} {y}"),
            *("am {d}. {month} {y}", "{d}. {mon} {y}", "{dd}. {mon} {y}", "{dd}.{mm}.{y}", "{d}.{m}.{y}"),
            *("{d}. {m}. {y}", "{weekday}, den {d}. {month} {y}", "{weekday}, {d}. {month} {y}"),
            *("{weekday}, der {d}. {month} {y}", "{weekday} {d}. {month} {y}", "{weekday}, den {dd}.{mm}.{y}"),
            *("{weekday}, {dd}.{mm}.{y}", "{wd}, {dd}.{mm}.{y}", "{wd}., {d}. {mon} {y}", "{wd} {d}.{m}.{y}"),
            *("der {spelled} {month} {y}", "am {spelled}n {month} {y}", "{weekday}, der {spelled} {month} {y}"),
            "{y}-{mm}-{dd}",
        ),
        clear_forms=(),
        variants={"Januar": "Jänner", "Samstag": "Sonnabend", "März": "Maerz", "ü": "ue", "ö": "oe", "ß": "ss"},
    ),
    "fr": Calendar(
        weekdays=("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
        short_weekdays=("lun.", "mar.", "mer.", "jeu.", "ven.", "sam.", "dim."),
        months=_words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        short_months=_words("janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc."),
        spelled=_FRENCH_SPELLED,
        ordinal=lambda day: "1er" if day == 1 else str(day),
        forms=(
            *("{ordinal} {month} {y}", "le {ordinal} {month} {y}", "{weekday} {ordinal} {month} {y}"),
            *("le {weekday} {ordinal} {month} {y}", "{weekday}, le {ordinal} {month} {y}", "{ordinal} {mon} {y}"),
            *("le {ordinal} {mon} {y}", "{wd} {ordinal} {mon} {y}", "{wd} {ordinal} {month} {y}", "{dd} {month} {y}"),
            *("le {spelled} {month} {y}", "{weekday} {spelled} {month} {y}", "{y}-{mm}-{dd}"),
        ),
        clear_forms=("{dd}/{mm}/{y}", "le {dd}/{mm}/{y}", "{weekday} {dd}/{mm}/{y}", "{dd}-{mm}-{y}"),
        variants={"é": "e", "û": "u"},
    ),
    "es": Calendar(
        weekdays=("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
        short_weekdays=("lun", "mar", "mié", "jue", "vie", "sáb", "dom"),
        months=_words("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
        short_months=_words("ene feb mar abr may jun jul ago sep oct nov dic"),
        spelled=_SPANISH_SPELLED,
        ordinal=lambda day: "1.º" if day == 1 else str(day),
        forms=(
            *("{d} de {month} de {y}", "el {d} de {month} de {y}", "{d} de {month} del {y}", "{d} {month} {y}"),
            *("{weekday}, {d} de {month} de {y}", "{weekday} {d} de {month} de {y}", "{ordinal} de {month} de {y}"),
            *("el {weekday} {d} de {month} de {y}", "el {weekday}, {d} de {month} del {y}", "{d} {mon} {y}"),
            *("{d} {mon}. {y}", "{wd}, {d} {mon} {y}", "{wd}. {d} de {month} de {y}", "{d}-{mon}-{y}"),
            *("el {spelled} de {month} de {y}", "{spelled} de {month} de {y}", "{y}-{mm}-{dd}"),
        ),
        clear_forms=("{dd}/{mm}/{y}", "{d}/{m}/{y}", "el {dd}/{mm}/{y}", "{dd}-{mm}-{y}"),
        variants={"é": "e", "á": "a", "septiembre": "setiembre"},
    ),
}
