//! The path of a C++ function out of its mangled name (Itanium ABI): `ns::Store<…>::load`.
//!
//! Types are skipped, not written: no references to earlier parts have to be followed, so the
//! result is no longer than the name, but for a few fixed words. What is rare in functions' names
//! (expressions in template arguments, `decltype`) is not read: such names stay as they are.

/// How deep names, types and arguments may lie in each other.
const DEPTH_MAX: u32 = 32;
/// What stands for template arguments.
const ARGUMENTS: &str = "<…>";

/// The path; `None` if this is no mangled function, or one that we can't read.
#[must_use]
pub fn of(mangled: &str) -> Option<String> {
    let mut reader = Reader { rest: mangled.strip_prefix("_Z")?, depth: 0 };
    let mut path = String::new();
    reader.encoding(&mut path)?;
    (!path.is_empty()).then_some(path)
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn next(&self) -> Option<u8> {
        self.rest.bytes().next()
    }

    /// Takes a text if it comes next.
    fn has(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn needs(&mut self, text: &str) -> Option<()> {
        self.has(text).then_some(())
    }

    fn take(&mut self, len: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// Takes what such bytes there are.
    fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a str {
        let len = self.rest.bytes().take_while(|byte| is_wanted(*byte)).count();
        self.take(len).unwrap_or_default()
    }

    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth = self.depth.checked_add(1).filter(|depth| *depth <= DEPTH_MAX)?;
        let result = read(self);
        self.depth = self.depth.saturating_sub(1);
        result
    }

    /// A function: its name; the types of its parameters are left.
    fn encoding(&mut self, path: &mut String) -> Option<()> {
        if self.has("Th") {
            // A thunk: a step on the way to the function.
            self.offset()?;
            return self.within(|reader| reader.encoding(path));
        }
        if self.has("Tv") {
            self.offset()?;
            self.offset()?;
            return self.within(|reader| reader.encoding(path));
        }
        self.within(|reader| reader.name(path))
    }

    fn offset(&mut self) -> Option<()> {
        let _negative = self.has("n");
        self.take_while(|byte| byte.is_ascii_digit());
        self.needs("_")
    }

    fn name(&mut self, path: &mut String) -> Option<()> {
        if self.has("N") {
            return self.nested(path);
        }
        if self.has("Z") {
            return self.local(path);
        }
        if self.has("St") {
            part(path, "std");
        }
        let last = self.unqualified("")?;
        part(path, &last);
        if self.next() == Some(b'I') {
            self.arguments()?;
            path.push_str(ARGUMENTS);
        }
        Some(())
    }

    fn nested(&mut self, path: &mut String) -> Option<()> {
        self.take_while(|byte| b"rVK".contains(&byte));
        let _reference = self.has("R") || self.has("O");
        let mut class = String::new();
        while !self.has("E") {
            match self.next()? {
                b'I' => {
                    self.arguments()?;
                    path.push_str(ARGUMENTS);
                }
                b'S' | b'T' => {
                    let prefix = self.prefix()?;
                    part(path, prefix);
                    // Of `std::string`, the constructor is `string`.
                    class = prefix.rsplit("::").next().unwrap_or(prefix).to_owned();
                }
                b'M' => self.needs("M")?,
                _ => {
                    class = self.unqualified(&class)?;
                    part(path, &class);
                }
            }
        }
        Some(())
    }

    /// Something inside a function.
    fn local(&mut self, path: &mut String) -> Option<()> {
        self.within(|reader| reader.encoding(path))?;
        self.types()?;
        if self.has("d") {
            self.take_while(|byte| byte.is_ascii_digit());
            self.needs("_")?;
        }
        self.within(|reader| reader.name(path))?;
        if self.has("_") {
            self.take_while(|byte| byte.is_ascii_digit() || byte == b'_');
        }
        Some(())
    }

    /// A beginning that is not written out. References to earlier parts are not followed: where one
    /// is no part of a type, which is skipped anyway, it shows as `…`.
    fn prefix(&mut self) -> Option<&'static str> {
        for (short, name) in ABBREVIATIONS {
            if self.has(short) {
                return Some(name);
            }
        }
        self.back_reference()?;
        Some("…")
    }

    /// To an earlier part, or to a template's argument.
    fn back_reference(&mut self) -> Option<()> {
        self.take(1)?;
        self.take_while(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z'));
        self.needs("_")
    }

    /// One part of a path; `class` is the one before, whose name constructors have.
    fn unqualified(&mut self, class: &str) -> Option<String> {
        let _internal = self.has("L");
        let text = match self.next()? {
            b'0'..=b'9' => match self.identifier()? {
                name if name.starts_with("_GLOBAL__N") => "(anonymous namespace)".to_owned(),
                name => name.to_owned(),
            },
            b'C' => {
                self.take(2)?;
                class.to_owned()
            }
            b'D' => {
                let kind = self.take(2)?.as_bytes().get(1)?;
                if !kind.is_ascii_digit() {
                    return None;
                }
                format!("~{class}")
            }
            b'U' if self.has("Ul") => {
                self.types()?;
                self.number()?;
                "{lambda}".to_owned()
            }
            b'U' if self.has("Ut") => {
                self.number()?;
                "{unnamed}".to_owned()
            }
            b'a'..=b'z' => self.operator()?,
            _ => return None,
        };
        while self.has("B") {
            self.identifier()?;
        }
        Some(text)
    }

    fn number(&mut self) -> Option<()> {
        self.take_while(|byte| byte.is_ascii_digit());
        self.needs("_")
    }

    fn identifier(&mut self) -> Option<&'a str> {
        let len = self.take_while(|byte| byte.is_ascii_digit()).parse().ok()?;
        self.take(len)
    }

    fn operator(&mut self) -> Option<String> {
        if self.has("cv") {
            self.within(Self::kind)?;
            return Some("operator (cast)".to_owned());
        }
        if self.has("li") {
            return Some(format!("operator\"\" {}", self.identifier()?));
        }
        let code = self.take(2)?;
        let (_, sign) = OPERATORS.iter().find(|(known, _)| *known == code)?;
        Some(format!("operator{sign}"))
    }

    /// Template arguments.
    fn arguments(&mut self) -> Option<()> {
        self.within(|reader| {
            reader.needs("I")?;
            while !reader.has("E") {
                reader.argument()?;
            }
            Some(())
        })
    }

    fn argument(&mut self) -> Option<()> {
        if self.has("L") {
            return self.within(Self::literal);
        }
        if self.has("J") {
            return self.within(|reader| {
                while !reader.has("E") {
                    reader.argument()?;
                }
                Some(())
            });
        }
        self.within(Self::kind)
    }

    /// A constant, behind its `L`.
    fn literal(&mut self) -> Option<()> {
        if self.has("_Z") {
            self.encoding(&mut String::new())?;
            return self.types();
        }
        self.kind()?;
        let _negative = self.has("n");
        self.take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'_'));
        self.needs("E")
    }

    /// Types up to an `E`.
    fn types(&mut self) -> Option<()> {
        self.within(|reader| {
            while !reader.has("E") {
                reader.kind()?;
            }
            Some(())
        })
    }

    /// One type.
    fn kind(&mut self) -> Option<()> {
        self.take_while(|byte| b"rVKPROCG".contains(&byte));
        match self.next()? {
            b'u' => {
                self.take(1)?;
                self.identifier()?;
            }
            b'a'..=b'z' => {
                self.take(1)?;
            }
            b'0'..=b'9' | b'N' | b'Z' => return self.within(|r| r.name(&mut String::new())),
            b'S' if self.has("St") => {
                self.unqualified("")?;
            }
            b'S' | b'T' => {
                self.prefix()?;
            }
            b'F' => {
                self.take(1)?;
                let _c = self.has("Y");
                self.take_while(|byte| b"RO".contains(&byte));
                return self.types();
            }
            b'A' => {
                self.take(1)?;
                self.number()?;
                return self.within(Self::kind);
            }
            b'M' => {
                self.take(1)?;
                self.within(Self::kind)?;
                return self.within(Self::kind);
            }
            b'D' => return self.special(),
            _ => return None,
        }
        if self.next() == Some(b'I') { self.arguments() } else { Some(()) }
    }

    /// A type whose letter is `D`.
    fn special(&mut self) -> Option<()> {
        match self.take(2)? {
            "Dp" | "Do" => self.within(Self::kind),
            "Dv" => {
                self.number()?;
                self.within(Self::kind)
            }
            "Dd" | "De" | "Df" | "Dh" | "Di" | "Ds" | "Du" | "Da" | "Dc" | "Dn" => Some(()),
            "DF" => {
                self.take_while(|byte| byte.is_ascii_digit());
                self.take(1).map(|_| ())
            }
            _ => None,
        }
    }
}

fn part(path: &mut String, text: &str) {
    if !path.is_empty() {
        path.push_str("::");
    }
    path.push_str(text);
}

/// What the standard library has short forms for.
const ABBREVIATIONS: [(&str, &str); 7] = [
    ("St", "std"),
    ("Sa", "std::allocator"),
    ("Sb", "std::basic_string"),
    ("Ss", "std::string"),
    ("Si", "std::istream"),
    ("So", "std::ostream"),
    ("Sd", "std::iostream"),
];

const OPERATORS: [(&str, &str); 48] = [
    ("nw", " new"),
    ("na", " new[]"),
    ("dl", " delete"),
    ("da", " delete[]"),
    ("aw", " co_await"),
    ("ps", "+"),
    ("ng", "-"),
    ("ad", "&"),
    ("de", "*"),
    ("co", "~"),
    ("pl", "+"),
    ("mi", "-"),
    ("ml", "*"),
    ("dv", "/"),
    ("rm", "%"),
    ("an", "&"),
    ("or", "|"),
    ("eo", "^"),
    ("aS", "="),
    ("pL", "+="),
    ("mI", "-="),
    ("mL", "*="),
    ("dV", "/="),
    ("rM", "%="),
    ("aN", "&="),
    ("oR", "|="),
    ("eO", "^="),
    ("ls", "<<"),
    ("rs", ">>"),
    ("lS", "<<="),
    ("rS", ">>="),
    ("ss", "<=>"),
    ("eq", "=="),
    ("ne", "!="),
    ("lt", "<"),
    ("gt", ">"),
    ("le", "<="),
    ("ge", ">="),
    ("nt", "!"),
    ("aa", "&&"),
    ("oo", "||"),
    ("pp", "++"),
    ("mm", "--"),
    ("cm", ","),
    ("pm", "->*"),
    ("pt", "->"),
    ("cl", "()"),
    ("ix", "[]"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (mangled, expected) in [
            ("_Z3foov", "foo"),
            ("_ZN2ns5Store4loadEi", "ns::Store::load"),
            ("_ZNK2ns5Store4sizeEv", "ns::Store::size"),
            ("_ZN2ns5StoreIiNS_3KeyELi5EE4loadERKS2_", "ns::Store<…>::load"),
            ("_ZN2ns5StoreC2ERKSs", "ns::Store::Store"),
            ("_ZN2ns5StoreIiED0Ev", "ns::Store<…>::~Store"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<…>::push_back"),
            ("_ZNSsC1EPKcRKSaIcE", "std::string::string"),
            ("_ZSt4sortIPiEvT_S1_", "std::sort<…>"),
            ("_ZN12_GLOBAL__N_14workEj", "(anonymous namespace)::work"),
            ("_ZL6staticv", "static"),
            ("_ZN1AplERKS_", "A::operator+"),
            ("_ZN1AcvbEv", "A::operator (cast)"),
            ("_ZlsRSoRK1A", "operator<<"),
            ("_ZZN1A3runEvENKUlvE_clEv", "A::run::{lambda}::operator()"),
            ("_ZZ4mainENKUliPKcE0_clEiS0_", "main::{lambda}::operator()"),
            ("_ZThn16_N1B3runEv", "B::run"),
            ("_ZTv0_n24_N1B3runEv", "B::run"),
            ("_ZN3fooB5cxx11Ev", "foo"),
            ("_ZN1A3fooEv.cold", "A::foo"),
            ("_Z3addIJidEEvDpT_", "add<…>"),
            ("_Z4callIXadL_Z3foovEEEvv", ""),
            ("_ZNKSt8functionIFviEEclEi", "std::function<…>::operator()"),
            ("_Z5applyIM1AFviEEvT_", "apply<…>"),
            ("_Z1fILb1ELc65ELin3EEvv", "f<…>"),
            ("_ZN1AIXsrT_5valueEE1fEv", ""),
            ("_ZTV1A", ""),
            ("_ZN1A", ""),
            ("_Z1fINT_4typeESt4pairIiSsEEvv", "f<…>"),
            ("_ZN999999999999999999999A1fEv", ""),
            ("_Z", ""),
            ("printf", ""),
            ("_ZN3größeEv", ""),
        ] {
            assert_eq!(of(mangled).unwrap_or_default(), expected, "{mangled}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        for (start, part) in [("_Z1f", "P"), ("_Z1fI", "M"), ("_Z", "Z1f"), ("_Z1fI", "1fI")] {
            let _any = of(&format!("{start}{}", part.repeat(1 << 20)));
        }
    }
}
