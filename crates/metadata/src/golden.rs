//! The display names of real compilers' output: every row of `tests/golden/names.txt`, and what mcs
//! makes of the same ideas. The end-to-end test checks the same rows in profiles of the running
//! program; here they need no runtime.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixture::Fixture;
use crate::metadata::{Metadata, Token};
use crate::spelling::TypeArg;
use crate::{display, dynamic_name};

const ROSLYN: &str = include_str!("../testdata/roslyn.txt");
const MCS: &str = include_str!("../testdata/mcs.txt");
const GOLDEN: &str = include_str!("../../../tests/golden/names.txt");
const SOURCES: [&str; 4] = [
    include_str!("../../../tests/apps/names/names.cs"),
    include_str!("../../../tests/apps/names/members.cs"),
    include_str!("../../../tests/apps/names/closures.cs"),
    include_str!("../../../tests/apps/names/flow.cs"),
];

/// The generic arguments that the runtime reports for a row: of the type, and of the method. Rows
/// that are not here run shared code, or have no generic parameters.
const ARGUMENTS: [(&str, &[&str], &[&str]); 30] = [
    ("lambda in a generic local function", &[], &["int"]),
    ("generic type over a value", &["int"], &[]),
    ("generic type over a reference", &["System.__Canon"], &[]),
    ("generic struct over values", &["int", "double"], &[]),
    ("generic type over a user's struct", &["Grid.Cell"], &[]),
    ("generic type over a tuple", &["(int, bool)"], &[]),
    ("generic type over a nullable", &["int?"], &[]),
    ("generic type over an enum", &["DayOfWeek"], &[]),
    ("generic type over a generic struct", &["KeyValuePair<int, long>"], &[]),
    ("generic method over a value", &[], &["int"]),
    ("generic method with two parameters", &[], &["int", "long"]),
    ("generic method of a generic type", &["int"], &["byte"]),
    ("nested generic types", &["int", "long"], &[]),
    ("nested type of a generic type", &["int"], &[]),
    ("static constructor of a generic type", &["int"], &[]),
    ("lambda in a generic method", &["int"], &[]),
    ("lambda in a generic type", &["int"], &[]),
    ("constructor of a generic type", &["int"], &[]),
    ("property of a generic type", &["int"], &[]),
    ("indexer of a generic type", &["int"], &[]),
    ("interpolated string handler", &[], &["int"]),
    ("operator of a generic type", &["int"], &[]),
    ("conversion of a generic type", &["int"], &[]),
    ("generic local function", &[], &["int"]),
    ("generic local function of a generic method", &[], &["int", "long"]),
    ("local function of a generic type", &["int"], &[]),
    ("async generic method over a value", &["int"], &[]),
    ("async generic method over a reference", &["System.__Canon"], &[]),
    ("async method of a generic type", &["int"], &[]),
    ("generic iterator", &["int"], &[]),
];

fn argument(name: &&str) -> TypeArg {
    match *name {
        "System.__Canon" => TypeArg::Shared,
        name => TypeArg::Known(name.to_owned()),
    }
}

/// What each row of the golden file expects.
fn golden() -> BTreeMap<&'static str, &'static str> {
    let rows = GOLDEN.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|row| row.split_once(" | ").unwrap_or_else(|| panic!("{row}"))).collect()
}

/// The rows that stand in metadata, with the token of what calls Burn.
fn cases() -> Vec<(&'static str, Token)> {
    let rows = ROSLYN.lines().filter_map(|line| line.strip_prefix("case "));
    let rows = rows.filter_map(|row| row.split_once(' '));
    rows.filter(|(token, _)| *token != "-")
        .map(|(token, description)| (description, token_of(token)))
        .collect()
}

fn token_of(hex: &str) -> Token {
    Token(u32::from_str_radix(hex, 16).unwrap())
}

fn module(text: &str) -> Fixture {
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with("case ")).collect();
    Fixture::parse(&rows.join("\n"))
}

fn name_of(module: &Fixture, description: &str, token: Token) -> String {
    let arguments = ARGUMENTS.iter().find(|row| row.0 == description);
    let (of_type, of_method) = arguments.map_or((&[][..], &[][..]), |row| (row.1, row.2));
    let of_type: Vec<TypeArg> = of_type.iter().map(argument).collect();
    let of_method: Vec<TypeArg> = of_method.iter().map(argument).collect();
    display(module, token, &of_type, &of_method).unwrap().full
}

#[test]
fn every_golden_row() {
    let module = module(ROSLYN);
    let golden = golden();
    let mut wrong = Vec::new();
    for (description, token) in cases() {
        let name = name_of(&module, description, token);
        if golden.get(description) != Some(&name.as_str()) {
            wrong.push(format!("{description} | {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn golden_rows_and_constructs_are_the_same() {
    let mut constructs = BTreeSet::from(["module initializer"]);
    for source in SOURCES {
        let calls = source.split("Case(\"").skip(1);
        constructs.extend(calls.filter_map(|call| call.split_once('"').map(|(text, _)| text)));
    }
    assert_eq!(golden().into_keys().collect::<BTreeSet<_>>(), constructs);
    assert!(ARGUMENTS.iter().all(|row| constructs.contains(row.0)));
}

#[test]
fn dynamic_rows() {
    let mut closure = vec![0x00, 0x01, 0x0a, 0x21];
    closure.extend_from_slice(&usize::MAX.to_le_bytes());
    let mut rule = closure.clone();
    rule[1] = 2;
    rule.push(0x08);
    let golden = golden();
    for (description, name, signature) in [
        ("DynamicMethod", "MyLambda", [0x00, 0x02, 0x0a, 0x08, 0x1d, 0x08].as_slice()),
        ("DynamicMethod without parameters", "Plain", &[0x00, 0x00, 0x0a]),
        ("compiled expression tree with a name", "PriceRule", &rule),
        ("compiled expression tree", "lambda_method2", &closure),
    ] {
        assert_eq!(golden[description], dynamic_name(name, signature).full);
    }
}

#[test]
fn without_attributes_and_directions() {
    let module = module(ROSLYN).without_extras();
    let check = |type_name: &str, method: &str, expected: &str| {
        let token = module.find(type_name, method);
        assert_eq!(display(&module, token, &[], &[]).unwrap().full, expected);
    };
    let names = "Corprof.TestApps.Names";
    check("<Overloaded>d__7", "MoveNext", &format!("{names}.Asynchronous.Overloaded(…)"));
    check("<After>d__2", "MoveNext", &format!("{names}.Asynchronous.After(int, string)"));
    check("Parameters", "Out", &format!("{names}.Parameters.Out(ref int)"));
}

#[test]
fn parts_of_a_name() {
    let module = module(ROSLYN);
    let check = |type_name: &str, method: &str, expected: [&str; 4]| {
        let name = display(&module, module.find(type_name, method), &[], &[]).unwrap();
        let parts = [&name.namespace, &name.type_name, &name.method, &name.parameters];
        assert_eq!(parts, expected.each_ref());
    };
    let names = "Corprof.TestApps.Names";
    check("Inner`1", "Both", [names, "Outer<T>.Inner<U>", "Both", "T, U"]);
    check("Thing", "set_Size", [names, "Thing", "Size.set", "int"]);
    check("<Generic>d__6`1", "MoveNext", [names, "Asynchronous", "Generic<T>", "T"]);
    check(
        "<>c__DisplayClass3_0",
        "<Capturing>b__0",
        [names, "Lambdas", "lambda 0 in Capturing", "int"],
    );
    check("Program", "<Main>$", ["", "Program", "Main", "string[]"]);
}

#[test]
fn helpers_of_the_compiler() {
    let module = module(ROSLYN);
    let check = |type_name: &str, method: &str, expected: &str| {
        let token = module.find(type_name, method);
        let name = display(&module, token, &[], &[]).unwrap().full;
        assert_eq!(name.strip_prefix("Corprof.TestApps.Names.").unwrap_or(&name), expected);
    };
    check("<>f__AnonymousType0`2", "get_Id", "anonymous type { Id, Name }.Id.get");
    check("<>f__AnonymousType0`2", ".ctor", "anonymous type { Id, Name }..ctor(Id, Name)");
    check("<>z__ReadOnlyArray`1", ".ctor", "ReadOnlyArray<T>..ctor(T[])");
    check("Person", "<Clone>$", "Person.Clone()");
    check("Person", "op_Equality", "Person.operator ==(Person, Person)");
    check("Program", "<Main>", "Program.Main(string[])");
    check("<Numbers>d__1", "System.IDisposable.Dispose", "Sequences.Numbers.IDisposable.Dispose()");
    check(
        "<After>d__2",
        "SetStateMachine",
        "Asynchronous.After.SetStateMachine(IAsyncStateMachine)",
    );
    check("<>c__DisplayClass3_0", ".ctor", "Lambdas.closure..ctor()");
    check(
        "<PrivateImplementationDetails>",
        "InlineArrayAsSpan",
        "<PrivateImplementationDetails>.InlineArrayAsSpan<TBuffer, TElement>(ref TBuffer, int)",
    );
}

#[test]
fn mcs() {
    let module = module(MCS);
    let check = |type_name: &str, method: &str, expected: &str| {
        let token = module.find(type_name, method);
        assert_eq!(display(&module, token, &[], &[]).unwrap().full, expected);
    };
    let program = "Corprof.Mono.Program";
    check("<Async>c__async0", "MoveNext", &format!("{program}.Async(int)"));
    check("<AsyncGeneric>c__async1`1", "MoveNext", &format!("{program}.AsyncGeneric<T>(T)"));
    check("<Overloaded>c__async2", "MoveNext", &format!("{program}.Overloaded(int)"));
    check("<Overloaded>c__async3", "MoveNext", &format!("{program}.Overloaded(string)"));
    check("<Iter>c__Iterator4", "MoveNext", &format!("{program}.Iter(int)"));
    check("<Iter>c__Iterator4", "<>__Finally0", &format!("{program}.Iter(int)"));
    check("<It>c__Iterator0`1", "MoveNext", "Corprof.Mono.G<T>.It<U>(U)");
    check("Program", "<Lam>m__2", &format!("lambda 2 in {program}.Lam()"));
    check("Program", "<LamG`1>m__4", &format!("lambda 4 in {program}.LamG<T>(T)"));
    check("Program", "<Main>m__A", &format!("lambda A in {program}.Main(string[])"));
    check("Program", "<get_P>m__9", &format!("lambda 9 in {program}.P.get"));
    check("Program", "<Program>m__8", &format!("lambda 8 in {program}..ctor()"));
    // Field initialisers, and an explicit implementation whose interface mcs leaves out.
    check("Program", "<inst>m__7", &format!("lambda 7 in {program}.inst"));
    check("Program", "<Go>m__0", &format!("lambda 0 in {program}.Go"));
    check("<Cap>c__AnonStorey9", "<>m__0", &format!("lambda 9_0 in {program}.Cap(int)"));
    check("<CapG>c__AnonStoreyC`1", "<>m__0", &format!("lambda C_0 in {program}.CapG<T>(T)"));
    check("<Nest>c__AnonStoreyB", "<>m__0", &format!("lambda B_0 in {program}.Nest(int)"));
    check("<IterLam>c__Iterator8", "<>m__0", &format!("lambda 8_0 in {program}.IterLam(int)"));
    check("<AsyncLam>c__async7", "MoveNext", &format!("{program}.AsyncLam()"));
    check("<AsyncLam>c__async7", "<>m__0", &format!("lambda 7_0 in {program}.AsyncLam()"));
    check("<AsyncLam>c__asyncE", "MoveNext", &format!("lambda E in {program}.AsyncLam()"));
    check("<AsyncLam>c__asyncD", "MoveNext", &format!("lambda D in {program}.AsyncLam()"));
    check(
        "<op_Addition>c__AnonStorey11",
        "<>m__0",
        &format!("lambda 11_0 in {program}.operator +(Program, int)"),
    );
    // mcs forgets the property that an iterator belongs to.
    check("<>c__Iterator6", "MoveNext", &format!("{program}.<>c__Iterator6.MoveNext()"));
    check("<>__AnonType0`2", "get_i", "anonymous type { i, Name }.i.get");
}

/// As rows of a report, two lambdas or local functions of a method are two, of overloads too.
#[test]
fn what_one_method_has_several_of_is_told_apart() {
    for module in [module(ROSLYN), module(MCS)] {
        let mut names = BTreeMap::new();
        for token in module.methods.keys() {
            let raw = module.method(*token).unwrap().name;
            let is_finally = raw.contains("Finally");
            if is_finally || ![">b__", ">g__", ">m__"].iter().any(|kind| raw.contains(kind)) {
                continue;
            }
            let full = display(&module, *token, &[], &[]).unwrap().full;
            let other = names.insert(full.clone(), raw.clone());
            assert_eq!(other, None, "{full} is {raw}, too");
        }
        assert!(names.len() > 10, "{names:?}");
    }
}

/// Everything in both modules has a name, and none shows a mangling that the crate knows.
#[test]
fn nothing_is_left_mangled() {
    for module in [module(ROSLYN), module(MCS)] {
        for token in module.methods.keys() {
            let full = display(&module, *token, &[], &[]).unwrap().full;
            let known = ["<>c.", "DisplayClass", ">d__", ">b__", ">g__", ">m__", "c__async", "`"];
            assert!(!known.iter().any(|mangling| full.contains(mangling)), "{full}");
        }
        assert!(module.method(Token::NONE).is_none());
    }
}
