//! Encodings of clients that are not UTF-8: those with one byte a character, whose first 128 are ASCII. Values are UTF-8 in here.

use crate::pg::error::{Result, SqlError, SqlState, state};
use std::borrow::Cow;
use std::sync::LazyLock;

/// What a client's texts are written in. The default is UTF-8, whose bytes, like those of `SQL_ASCII`, are taken as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charset(Option<&'static Table>);

#[derive(Debug)]
struct Table {
    name: &'static str,
    /// The characters of the bytes from 128 on.
    high: Vec<char>,
}

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let table = |(name, _, high): &(&'static str, &[&str], &str)| Table {
        name,
        high: high.chars().collect(),
    };
    HIGH.iter().map(table).collect()
});

/// Stands for a byte that is no character.
const NONE: char = '\u{fffd}';

/// PostgreSQL's name of an encoding that clients can have, by any of its names; None: there is none of that name.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" | "auto" => return Some("UTF8"),
        "sqlascii" => return Some("SQL_ASCII"),
        _ => {}
    }
    let is_it = |own: &str| {
        own.chars()
            .filter(char::is_ascii_alphanumeric)
            .flat_map(char::to_lowercase)
            .eq(plain.chars())
    };
    let found = HIGH
        .iter()
        .find(|(own, others, _)| is_it(own) || others.contains(&plain.as_str()));
    found.map(|(name, ..)| *name)
}

/// Encodings of PostgreSQL's whose characters have several bytes.
pub(super) fn is_of_several_bytes(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let known = [
        "big5",
        "euccn",
        "eucjis2004",
        "eucjp",
        "euckr",
        "euctw",
        "gb18030",
        "gbk",
        "johab",
        "muleinternal",
        "shiftjis2004",
        "sjis",
        "shiftjis",
        "uhc",
        "win932",
        "win936",
        "win949",
        "win950",
        "windows932",
        "windows936",
        "windows949",
        "windows950",
        "mskanji",
    ];
    known.contains(&plain.to_lowercase().as_str())
}

impl Charset {
    /// By PostgreSQL's name of it.
    pub fn named(name: &str) -> Self {
        Self(TABLES.iter().find(|table| table.name == name))
    }

    /// Whether texts are bytes of UTF-8, or are sent as if they were.
    pub fn is_utf8(self) -> bool {
        self.0.is_none()
    }

    pub fn name(self) -> &'static str {
        self.0.map_or("UTF8", |table| table.name)
    }

    /// A client's text as UTF-8, which is not checked where it is that already.
    ///
    /// # Errors
    /// 22021 for a byte that is no character.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
        let Some(table) = self.0.filter(|_| !bytes.is_ascii()) else {
            return Ok(Cow::Borrowed(bytes));
        };
        let mut text = String::with_capacity(bytes.len() + bytes.len() / 4);
        for byte in bytes {
            let found = match byte.checked_sub(128) {
                None => char::from(*byte),
                Some(at) => table.high[usize::from(at)],
            };
            if found == NONE {
                let message = format!("invalid byte sequence for encoding \"{}\": 0x{byte:02x}", table.name);
                return Err(SqlError::new(state::CHARACTER_NOT_IN_REPERTOIRE, message));
            }
            text.push(found);
        }
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// Rewrites what `out` has from `start` on, which is UTF-8, for the client.
    ///
    /// # Errors
    /// 22P05 for a character that the encoding lacks.
    pub fn encode(self, start: usize, out: &mut Vec<u8>) -> Result<()> {
        match self.0.filter(|_| !out[start..].is_ascii()) {
            Some(table) => table.encode(start, out, |c| {
                let bytes: Vec<String> = c.to_string().bytes().map(|byte| format!("0x{byte:02x}")).collect();
                let (bytes, name) = (bytes.join(" "), table.name);
                let message = format!(
                    "character with byte sequence {bytes} in encoding \"UTF8\" has no equivalent in encoding \"{name}\""
                );
                Err(SqlError::new(SqlState("22P05"), message))
            }),
            None => Ok(()),
        }
    }

    /// The same for names and messages, which must not fail: `?` is written for what the encoding lacks.
    pub fn encode_lossy(self, text: &str) -> Cow<'_, [u8]> {
        let Some(table) = self.0.filter(|_| !text.is_ascii()) else {
            return Cow::Borrowed(text.as_bytes());
        };
        let mut out = text.as_bytes().to_vec();
        let _ = table.encode(0, &mut out, |_| Ok(b'?'));
        Cow::Owned(out)
    }
}

impl Table {
    fn encode(&self, start: usize, out: &mut Vec<u8>, lacking: impl Fn(char) -> Result<u8>) -> Result<()> {
        let text = out.split_off(start);
        for c in String::from_utf8_lossy(&text).chars() {
            out.push(match u8::try_from(c) {
                Ok(byte) if byte.is_ascii() => byte,
                _ => match self.high.iter().position(|own| *own == c && c != NONE) {
                    Some(at) => at as u8 | 0x80,
                    None => lacking(c)?,
                },
            });
        }
        Ok(())
    }
}

/// Names, further names, and the characters of the bytes from 128 on.
const HIGH: [(&str, &[&str], &str); 27] = [
    (
        "LATIN1",
        &["iso88591"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
    ),
    (
        "LATIN2",
        &["iso88592"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}Ą˘Ł¤ĽŚ§¨ŠŞŤŹ\u{ad}ŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
    ),
    (
        "LATIN3",
        &["iso88593"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}Ħ˘£¤�Ĥ§¨İŞĞĴ\u{ad}�Ż°ħ²³´µĥ·¸ışğĵ½�żÀÁÂ�ÄĊĈÇÈÉÊËÌÍÎÏ�ÑÒÓÔĠÖ×ĜÙÚÛÜŬŜßàáâ�äċĉçèéêëìíîï�ñòóôġö÷ĝùúûüŭŝ˙",
    ),
    (
        "LATIN4",
        &["iso88594"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}ĄĸŖ¤ĨĻ§¨ŠĒĢŦ\u{ad}Ž¯°ą˛ŗ´ĩļˇ¸šēģŧŊžŋĀÁÂÃÄÅÆĮČÉĘËĖÍÎĪĐŅŌĶÔÕÖ×ØŲÚÛÜŨŪßāáâãäåæįčéęëėíîīđņōķôõö÷øųúûüũū˙",
    ),
    (
        "LATIN5",
        &["iso88599"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüışÿ",
    ),
    (
        "LATIN6",
        &["iso885910"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}ĄĒĢĪĨĶ§ĻĐŠŦŽ\u{ad}ŪŊ°ąēģīĩķ·ļđšŧž―ūŋĀÁÂÃÄÅÆĮČÉĘËĖÍÎÏÐŅŌÓÔÕÖŨØŲÚÛÜÝÞßāáâãäåæįčéęëėíîïðņōóôõöũøųúûüýþĸ",
    ),
    (
        "LATIN7",
        &["iso885913"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}”¢£¤„¦§Ø©Ŗ«¬\u{ad}®Æ°±²³“µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž’",
    ),
    (
        "LATIN8",
        &["iso885914"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}Ḃḃ£ĊċḊ§Ẁ©ẂḋỲ\u{ad}®ŸḞḟĠġṀṁ¶ṖẁṗẃṠỳẄẅṡÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏŴÑÒÓÔÕÖṪØÙÚÛÜÝŶßàáâãäåæçèéêëìíîïŵñòóôõöṫøùúûüýŷÿ",
    ),
    (
        "LATIN9",
        &["iso885915"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}¡¢£€¥Š§š©ª«¬\u{ad}®¯°±²³Žµ¶·ž¹º»ŒœŸ¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
    ),
    (
        "LATIN10",
        &["iso885916"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}ĄąŁ€„Š§š©Ș«Ź\u{ad}źŻ°±ČłŽ”¶·žčș»ŒœŸżÀÁÂĂÄĆÆÇÈÉÊËÌÍÎÏĐŃÒÓÔŐÖŚŰÙÚÛÜĘȚßàáâăäćæçèéêëìíîïđńòóôőöśűùúûüęțÿ",
    ),
    (
        "ISO_8859_5",
        &["iso88595"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}ЁЂЃЄЅІЇЈЉЊЋЌ\u{ad}ЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя№ёђѓєѕіїјљњћќ§ўџ",
    ),
    (
        "ISO_8859_6",
        &["iso88596"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}���¤�������\u{60c}\u{ad}�������������\u{61b}���\u{61f}�\u{621}\u{622}\u{623}\u{624}\u{625}\u{626}\u{627}\u{628}\u{629}\u{62a}\u{62b}\u{62c}\u{62d}\u{62e}\u{62f}\u{630}\u{631}\u{632}\u{633}\u{634}\u{635}\u{636}\u{637}\u{638}\u{639}\u{63a}�����\u{640}\u{641}\u{642}\u{643}\u{644}\u{645}\u{646}\u{647}\u{648}\u{649}\u{64a}\u{64b}\u{64c}\u{64d}\u{64e}\u{64f}\u{650}\u{651}\u{652}�������������",
    ),
    (
        "ISO_8859_7",
        &["iso88597"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}‘’£€₯¦§¨©ͺ«¬\u{ad}�―°±²³΄΅Ά·ΈΉΊ»Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡ�ΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ�",
    ),
    (
        "ISO_8859_8",
        &["iso88598"],
        "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}�¢£¤¥¦§¨©×«¬\u{ad}®¯°±²³´µ¶·¸¹÷»¼½¾��������������������������������‗\u{5d0}\u{5d1}\u{5d2}\u{5d3}\u{5d4}\u{5d5}\u{5d6}\u{5d7}\u{5d8}\u{5d9}\u{5da}\u{5db}\u{5dc}\u{5dd}\u{5de}\u{5df}\u{5e0}\u{5e1}\u{5e2}\u{5e3}\u{5e4}\u{5e5}\u{5e6}\u{5e7}\u{5e8}\u{5e9}\u{5ea}��\u{200e}\u{200f}�",
    ),
    (
        "KOI8R",
        &["koi8"],
        "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\u{a0}⌡°²·÷═║╒ё╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡Ё╢╣╤╥╦╧╨╩╪╫╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
    ),
    (
        "KOI8U",
        &[],
        "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\u{a0}⌡°²·÷═║╒ёє╔ії╗╘╙╚╛ґ╝╞╟╠╡ЁЄ╣ІЇ╦╧╨╩╪Ґ╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
    ),
    (
        "WIN866",
        &["windows866", "alt"],
        "АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмноп░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀рстуфхцчшщъыьэюяЁёЄєЇїЎў°∙·√№¤■\u{a0}",
    ),
    (
        "WIN874",
        &["windows874"],
        "€����…�����������‘’“”•–—��������\u{a0}\u{e01}\u{e02}\u{e03}\u{e04}\u{e05}\u{e06}\u{e07}\u{e08}\u{e09}\u{e0a}\u{e0b}\u{e0c}\u{e0d}\u{e0e}\u{e0f}\u{e10}\u{e11}\u{e12}\u{e13}\u{e14}\u{e15}\u{e16}\u{e17}\u{e18}\u{e19}\u{e1a}\u{e1b}\u{e1c}\u{e1d}\u{e1e}\u{e1f}\u{e20}\u{e21}\u{e22}\u{e23}\u{e24}\u{e25}\u{e26}\u{e27}\u{e28}\u{e29}\u{e2a}\u{e2b}\u{e2c}\u{e2d}\u{e2e}\u{e2f}\u{e30}\u{e31}\u{e32}\u{e33}\u{e34}\u{e35}\u{e36}\u{e37}\u{e38}\u{e39}\u{e3a}����\u{e3f}\u{e40}\u{e41}\u{e42}\u{e43}\u{e44}\u{e45}\u{e46}\u{e47}\u{e48}\u{e49}\u{e4a}\u{e4b}\u{e4c}\u{e4d}\u{e4e}\u{e4f}\u{e50}\u{e51}\u{e52}\u{e53}\u{e54}\u{e55}\u{e56}\u{e57}\u{e58}\u{e59}\u{e5a}\u{e5b}����",
    ),
    (
        "WIN1250",
        &["windows1250"],
        "€�‚�„…†‡�‰Š‹ŚŤŽŹ�‘’“”•–—�™š›śťžź\u{a0}ˇ˘Ł¤Ą¦§¨©Ş«¬\u{ad}®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
    ),
    (
        "WIN1251",
        &["windows1251", "win"],
        "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—�™љ›њќћџ\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя",
    ),
    (
        "WIN1252",
        &["windows1252"],
        "€�‚ƒ„…†‡ˆ‰Š‹Œ�Ž��‘’“”•–—˜™š›œ�žŸ\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
    ),
    (
        "WIN1253",
        &["windows1253"],
        "€�‚ƒ„…†‡�‰�‹�����‘’“”•–—�™�›����\u{a0}΅Ά£¤¥¦§¨©�«¬\u{ad}®―°±²³΄µ¶·ΈΉΊ»Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡ�ΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ�",
    ),
    (
        "WIN1254",
        &["windows1254"],
        "€�‚ƒ„…†‡ˆ‰Š‹Œ����‘’“”•–—˜™š›œ��Ÿ\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüışÿ",
    ),
    (
        "WIN1255",
        &["windows1255"],
        "€�‚ƒ„…†‡ˆ‰�‹�����‘’“”•–—˜™�›����\u{a0}¡¢£₪¥¦§¨©×«¬\u{ad}®¯°±²³´µ¶·¸¹÷»¼½¾¿\u{5b0}\u{5b1}\u{5b2}\u{5b3}\u{5b4}\u{5b5}\u{5b6}\u{5b7}\u{5b8}\u{5b9}�\u{5bb}\u{5bc}\u{5bd}\u{5be}\u{5bf}\u{5c0}\u{5c1}\u{5c2}\u{5c3}\u{5f0}\u{5f1}\u{5f2}\u{5f3}\u{5f4}�������\u{5d0}\u{5d1}\u{5d2}\u{5d3}\u{5d4}\u{5d5}\u{5d6}\u{5d7}\u{5d8}\u{5d9}\u{5da}\u{5db}\u{5dc}\u{5dd}\u{5de}\u{5df}\u{5e0}\u{5e1}\u{5e2}\u{5e3}\u{5e4}\u{5e5}\u{5e6}\u{5e7}\u{5e8}\u{5e9}\u{5ea}��\u{200e}\u{200f}�",
    ),
    (
        "WIN1256",
        &["windows1256"],
        "€\u{67e}‚ƒ„…†‡ˆ‰\u{679}‹Œ\u{686}\u{698}\u{688}\u{6af}‘’“”•–—\u{6a9}™\u{691}›œ\u{200c}\u{200d}\u{6ba}\u{a0}\u{60c}¢£¤¥¦§¨©\u{6be}«¬\u{ad}®¯°±²³´µ¶·¸¹\u{61b}»¼½¾\u{61f}\u{6c1}\u{621}\u{622}\u{623}\u{624}\u{625}\u{626}\u{627}\u{628}\u{629}\u{62a}\u{62b}\u{62c}\u{62d}\u{62e}\u{62f}\u{630}\u{631}\u{632}\u{633}\u{634}\u{635}\u{636}×\u{637}\u{638}\u{639}\u{63a}\u{640}\u{641}\u{642}\u{643}à\u{644}â\u{645}\u{646}\u{647}\u{648}çèéêë\u{649}\u{64a}îï\u{64b}\u{64c}\u{64d}\u{64e}ô\u{64f}\u{650}÷\u{651}ù\u{652}ûü\u{200e}\u{200f}\u{6d2}",
    ),
    (
        "WIN1257",
        &["windows1257"],
        "€�‚�„…†‡�‰�‹�¨ˇ¸�‘’“”•–—�™�›�¯˛�\u{a0}�¢£¤�¦§Ø©Ŗ«¬\u{ad}®Æ°±²³´µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž˙",
    ),
    (
        "WIN1258",
        &["windows1258", "abc", "tcvn", "tcvn5712", "vscii"],
        "€�‚ƒ„…†‡ˆ‰�‹Œ����‘’“”•–—˜™�›œ��Ÿ\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂĂÄÅÆÇÈÉÊË\u{300}ÍÎÏĐÑ\u{309}ÓÔƠÖ×ØÙÚÛÜƯ\u{303}ßàáâăäåæçèéêë\u{301}íîïđñ\u{323}óôơö÷øùúûüư₫ÿ",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole_and_named() {
        for table in TABLES.iter() {
            assert_eq!(table.high.len(), 128, "{}", table.name);
            assert_eq!(canonical(table.name), Some(table.name));
        }
        assert_eq!(canonical("iso-8859-15"), Some("LATIN9"));
        assert_eq!(canonical("Windows-1252"), Some("WIN1252"));
        assert_eq!(canonical("latin99"), None);
        assert!(Charset::named("UTF8").is_utf8() && Charset::named("SQL_ASCII").is_utf8());
    }

    #[test]
    fn both_ways() {
        let latin9 = Charset::named("LATIN9");
        assert_eq!(latin9.decode(b"a\xa4").unwrap().as_ref(), "a\u{20ac}".as_bytes());
        let mut out = "x\u{20ac}".as_bytes().to_vec();
        latin9.encode(1, &mut out).unwrap();
        assert_eq!(out, b"x\xa4");
        let mut out = "\u{20ac}".as_bytes().to_vec();
        assert_eq!(
            Charset::named("LATIN1").encode(0, &mut out).unwrap_err().state.0,
            "22P05"
        );
        assert_eq!(Charset::named("LATIN1").encode_lossy("\u{20ac}").as_ref(), b"?");
        assert_eq!(Charset::named("WIN1252").decode(b"\x81").unwrap_err().state.0, "22021");
    }
}
