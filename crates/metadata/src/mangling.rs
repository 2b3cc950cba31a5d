//! The names that C# compilers make up, taken apart: Roslyn's and mcs's.
//!
//! All begin with `<`, the name of what the author wrote, and `>`; the rest says what it became.
//! They are no contract of either compiler but have not changed in years. What isn't recognised is
//! shown as it stands: a wrong guess would hide more than it tells.
//!
//! | in metadata | what it is |
//! |---|---|
//! | `<Load>d__3`, `<<Run>b__0>d` | state machine of an async method, iterator or async lambda |
//! | `<Load>c__async0`, `<Items>c__Iterator1` | the same by mcs |
//! | `<>c`, `<>c__DisplayClass2_0`, `<F>c__AnonStorey1` | closure: holds lambdas or variables |
//! | `<Run>b__0_1`, `<Run>m__0`, `<>m__0` | lambda or anonymous method |
//! | `<Run>g__Helper\|3_0` | local function |
//! | `<>m__Finally1`, `<>__Finally0` | a finally block of an iterator |
//! | `<Main>$`, `<Main>` | top-level statements; the synchronous caller of an async Main |
//! | `<>f__AnonymousType0`, `<>__AnonType0` | anonymous type |
//! | `<>f__AnonymousDelegate0`, `<>A{…}`, `<>F{…}` | delegate type of a lambda without one |
//! | `<File>F0123__Name` | file-local type |
//! | `<>y__InlineArray2`, `<>z__ReadOnlyArray` | storage of collection expressions |
//! | `<Buffer>e__FixedBuffer`, `<Buffer>__FixedBuffer0` | storage of a fixed-size buffer |

/// What a compiler-made type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompilerType<'a> {
    /// Runs the body of the async method or iterator with this metadata name.
    StateMachine { of: &'a str, compiler: Compiler },
    /// Holds lambdas and what they capture; mcs says in which method.
    Closure { of: Option<&'a str> },
    /// A name that the author wrote, or that says plainly what it is.
    Renamed(&'a str),
    /// An anonymous type; the names of its properties are in its generic parameters.
    Anonymous,
    /// A fixed-size buffer of this name.
    FixedBuffer(&'a str),
}

/// What a compiler-made method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompilerMethod<'a> {
    /// A lambda or anonymous method; mcs leaves out the name where the closure has it.
    Lambda { of: Option<&'a str>, ordinal: &'a str },
    /// A local function.
    LocalFunction { of: &'a str, name: &'a str, ordinal: &'a str },
    /// A finally block that an iterator's `Dispose` runs too.
    Finally,
    /// The program's entry point.
    EntryPoint,
    /// The copying behind a record's `with`.
    Clone,
}

/// Which compiler made a name; they spell names within names differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    Roslyn,
    Mcs,
}

/// Recognises a type, given its name without namespace and arity.
pub(crate) fn compiler_type(name: &str) -> Option<CompilerType<'_>> {
    let (of, kind) = split(name)?;
    if !of.is_empty() {
        return named_type(of, kind);
    }
    if kind == "c" || is_numbered(kind, "c__") || is_numbered(kind, "c__DisplayClass") {
        return Some(CompilerType::Closure { of: None });
    }
    if is_numbered(kind, "f__AnonymousType") || is_numbered(kind, "__AnonType") {
        return Some(CompilerType::Anonymous);
    }
    if is_numbered(kind, "f__AnonymousDelegate") || is_delegate(kind) {
        return Some(CompilerType::Renamed("anonymous delegate"));
    }
    if is_numbered(kind, "y__InlineArray") {
        return Some(CompilerType::Renamed("inline array"));
    }
    let collection = kind.strip_prefix("z__").filter(|name| is_identifier(name));
    collection.map(CompilerType::Renamed)
}

fn named_type<'a>(of: &'a str, kind: &'a str) -> Option<CompilerType<'a>> {
    use Compiler::{Mcs, Roslyn};
    if kind == "d" || is_numbered(kind, "d__") {
        return Some(CompilerType::StateMachine { of, compiler: Roslyn });
    }
    if is_hex_numbered(kind, "c__async") || is_hex_numbered(kind, "c__Iterator") {
        return Some(CompilerType::StateMachine { of, compiler: Mcs });
    }
    if is_hex_numbered(kind, "c__AnonStorey") {
        return Some(CompilerType::Closure { of: Some(of) });
    }
    if kind == "e__FixedBuffer" || is_numbered(kind, "__FixedBuffer") {
        return Some(CompilerType::FixedBuffer(of));
    }
    let (hash, name) = kind.strip_prefix('F')?.split_once("__")?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && is_identifier(name)).then_some(CompilerType::Renamed(name))
}

/// Recognises a method, given its name.
pub(crate) fn compiler_method(name: &str) -> Option<CompilerMethod<'_>> {
    let (of, kind) = split(name)?;
    match (of, kind) {
        ("Main", "$" | "") => return Some(CompilerMethod::EntryPoint),
        ("Clone", "$") => return Some(CompilerMethod::Clone),
        _ => {}
    }
    let by_mcs = kind.strip_prefix("m__").filter(|number| is_hex_number(number));
    if of.is_empty() {
        return if is_numbered(kind, "m__Finally") || is_numbered(kind, "__Finally") {
            Some(CompilerMethod::Finally)
        } else {
            by_mcs.map(|ordinal| CompilerMethod::Lambda { of: None, ordinal })
        };
    }
    let by_roslyn = kind.strip_prefix("b__").filter(|number| is_number(number));
    if let Some(ordinal) = by_roslyn.or(by_mcs) {
        return Some(CompilerMethod::Lambda { of: Some(of), ordinal });
    }
    let (name, ordinal) = kind.strip_prefix("g__")?.rsplit_once('|')?;
    (is_identifier(name) && is_number(ordinal)).then_some(CompilerMethod::LocalFunction {
        of,
        name,
        ordinal,
    })
}

/// The number of a type that holds lambdas: `2_0` of `<>c__DisplayClass2_0`, by mcs `A` of
/// `<Run>c__AnonStoreyA`. None if it has none, as the one type of all that capture nothing.
pub(crate) fn holder_ordinal(name: &str) -> Option<&str> {
    let (_, kind) = split(name)?;
    if let Some(number) = kind.strip_prefix("c__DisplayClass") {
        return Some(number).filter(|number| is_number(number));
    }
    let number = ["c__AnonStorey", "c__async", "c__Iterator"]
        .into_iter()
        .find_map(|prefix| kind.strip_prefix(prefix))?;
    Some(number).filter(|number| is_hex_number(number))
}

/// The property whose type is this generic parameter of an anonymous type: `<Id>j__TPar`, by mcs
/// `<Id>__T`.
pub(crate) fn property_of_parameter(name: &str) -> Option<&str> {
    let (property, kind) = split(name)?;
    matches!(kind, "j__TPar" | "__T").then_some(property)
}

/// The text between the first `<` and its `>`, and what follows.
fn split(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let mut depth = 1_u32;
    for (index, byte) in inner.bytes().enumerate() {
        match byte {
            b'<' => depth = depth.saturating_add(1),
            b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some((inner.get(..index)?, inner.get(index.saturating_add(1)..)?));
        }
    }
    None
}

/// Roslyn's ordinals: `0`, `2_1`, and with edit-and-continue `0_1#2`.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'#'))
}

fn is_numbered(kind: &str, prefix: &str) -> bool {
    kind.strip_prefix(prefix).is_some_and(is_number)
}

/// mcs counts in upper-case hexadecimal.
fn is_hex_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
}

fn is_hex_numbered(kind: &str, prefix: &str) -> bool {
    kind.strip_prefix(prefix).is_some_and(is_hex_number)
}

/// `<>A` and `<>F`, for actions and functions, with the by-reference parameters in braces.
fn is_delegate(kind: &str) -> bool {
    kind == "A" || kind == "F" || (kind.starts_with("A{") || kind.starts_with("F{"))
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_type(name: &str, expected: CompilerType<'_>) {
        assert_eq!(compiler_type(name), Some(expected), "{name}");
    }

    fn check_method(name: &str, expected: CompilerMethod<'_>) {
        assert_eq!(compiler_method(name), Some(expected), "{name}");
    }

    #[test]
    fn types_of_roslyn() {
        use CompilerType::{Anonymous, Closure, FixedBuffer, Renamed};
        let machine = |of| CompilerType::StateMachine { of, compiler: Compiler::Roslyn };
        check_type("<After>d__2", machine("After"));
        check_type("<get_Property>d__5", machine("get_Property"));
        check_type("<<Main>$>d__0", machine("<Main>$"));
        check_type("<<Lambda>b__9_0>d", machine("<Lambda>b__9_0"));
        check_type("<<Async>g__Helper|10_0>d", machine("<Async>g__Helper|10_0"));
        check_type(
            "<Corprof-TestApps-Names-ILoader-LoadAsync>d__0",
            machine("Corprof-TestApps-Names-ILoader-LoadAsync"),
        );
        check_type("<>c", Closure { of: None });
        check_type("<>c__3", Closure { of: None });
        check_type("<>c__DisplayClass4_1", Closure { of: None });
        check_type("<>c__DisplayClass4_1#2", Closure { of: None });
        check_type("<>f__AnonymousType0", Anonymous);
        check_type("<>f__AnonymousDelegate0", Renamed("anonymous delegate"));
        check_type("<>F{00000008}", Renamed("anonymous delegate"));
        check_type("<>y__InlineArray1", Renamed("inline array"));
        check_type("<>z__ReadOnlyArray", Renamed("ReadOnlyArray"));
        check_type("<Buf>e__FixedBuffer", FixedBuffer("Buf"));
        check_type(
            "<names>FE67301C9064F795AABBC80B46F1D20B70A9C76A12FFCE76CCB09CC1CE0562F83__Hidden",
            Renamed("Hidden"),
        );
    }

    #[test]
    fn types_of_mcs() {
        use CompilerType::{Anonymous, Closure, FixedBuffer};
        let machine = |of| CompilerType::StateMachine { of, compiler: Compiler::Mcs };
        check_type("<Async>c__async0", machine("Async"));
        check_type("<AsyncLam>c__asyncE", machine("AsyncLam"));
        check_type("<Iter>c__Iterator4", machine("Iter"));
        check_type("<IterLam>c__AnonStorey10", Closure { of: Some("IterLam") });
        check_type("<Nest>c__AnonStoreyA", Closure { of: Some("Nest") });
        check_type("<>__AnonType0", Anonymous);
        check_type("<Buf>__FixedBuffer0", FixedBuffer("Buf"));
    }

    #[test]
    fn methods_of_both() {
        use CompilerMethod::{Clone, EntryPoint, Finally};
        let lambda = |of, ordinal| CompilerMethod::Lambda { of, ordinal };
        let local = |of, name, ordinal| CompilerMethod::LocalFunction { of, name, ordinal };
        check_method("<Run>b__0_1", lambda(Some("Run"), "0_1"));
        check_method("<Capturing>b__0", lambda(Some("Capturing"), "0"));
        check_method("<.cctor>b__5_1", lambda(Some(".cctor"), "5_1"));
        check_method("<<Main>$>b__0_0", lambda(Some("<Main>$"), "0_0"));
        check_method(
            "<Corprof.TestApps.Names.IWorker.Work>b__6_0",
            lambda(Some("Corprof.TestApps.Names.IWorker.Work"), "6_0"),
        );
        check_method("<Run>g__Helper|0_0", local("Run", "Helper", "0_0"));
        check_method("<AsDelegate>g__Helper|0", local("AsDelegate", "Helper", "0"));
        check_method("<<Main>$>g__Top|0_1", local("<Main>$", "Top", "0_1"));
        check_method("<>m__Finally1", Finally);
        check_method("<Main>$", EntryPoint);
        check_method("<Main>", EntryPoint);
        check_method("<Clone>$", Clone);
        check_method("<Lam>m__2", lambda(Some("Lam"), "2"));
        check_method("<Main>m__A", lambda(Some("Main"), "A"));
        check_method("<LamG`1>m__4", lambda(Some("LamG`1"), "4"));
        check_method("<>m__0", lambda(None, "0"));
        check_method("<>__Finally0", Finally);
    }

    #[test]
    fn numbers_of_what_holds_lambdas() {
        for (name, number) in [
            ("<>c__DisplayClass4_1", Some("4_1")),
            ("<>c__DisplayClass4_1#2", Some("4_1#2")),
            ("<IterLam>c__AnonStorey10", Some("10")),
            ("<AsyncLam>c__asyncE", Some("E")),
            ("<Iter>c__Iterator4", Some("4")),
            ("<>c", None),
            ("<>c__3", None),
            ("<>c__DisplayClass", None),
            ("<Async>d__2", None),
            ("Plain", None),
        ] {
            assert_eq!(holder_ordinal(name), number, "{name}");
        }
    }

    #[test]
    fn parameters_of_anonymous_types() {
        assert_eq!(property_of_parameter("<Id>j__TPar"), Some("Id"));
        assert_eq!(property_of_parameter("<Id>__T"), Some("Id"));
        assert_eq!(property_of_parameter("TKey"), None);
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        for name in [
            "",
            "Plain",
            "<",
            "<>",
            "<a",
            "<a>",
            "<>O",
            "<>o__0",
            "<>c__Iterator6",
            "<Module>",
            "<a>d__",
            "<a>dd",
            "<a>z__0",
            "<>c__DisplayClass",
            "<a>F__",
            "<a>Fxyz__Name",
            "<PrivateImplementationDetails>",
            "<a>b__x",
            "<a>g__|0_0",
            "<a>g__b",
            "<<a>d__0",
            "<a>g__b c|0",
            "<>E__0",
            "<Size>k__BackingField",
            "<>f__am$cache0",
            "é<a>d__0",
        ] {
            assert_eq!(compiler_type(name), None, "{name}");
            assert_eq!(compiler_method(name), None, "{name}");
        }
    }
}
