//! The decoder against what RyuJIT says about the methods that it compiles: which are framed, how
//! long each instruction is, where funclets begin, and how much an epilogue takes off the stack.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/listing.rs"]
mod listing;
#[path = "support/rig.rs"]
mod rig;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use listing::Listed;
use signal::epilogue::epilogue;
use signal::rule::{Cfa, Rule};
use unwind::managed::instruction::Instruction;
use unwind::managed::{Method, Shape};

/// Compiles everything, so that there is much to look at.
const ALL: (&str, &str) = ("DOTNET_ReadyToRun", "0");
/// Replaces loops early.
const TIERED: [(&str, &str); 3] =
    [ALL, ("DOTNET_OSR_HitLimit", "1"), ("DOTNET_TC_OnStackReplacement_InitialCounter", "2")];
const OPTIMISED: [(&str, &str); 2] = [ALL, ("DOTNET_TieredCompilation", "0")];

/// Runs a program and gives the listing of its methods.
fn listing(program: &Path, version: &str, settings: &[(&str, &str)]) -> Option<String> {
    let dotnet = program.ancestors().map(|folder| folder.join("dotnet/dotnet"));
    let dotnet = dotnet.into_iter().find(|dotnet| dotnet.is_file())?;
    let config = program.with_extension(format!("net{version}.runtimeconfig.json"));
    let name = format!("listing-{version}-{}-{}.txt", settings.len(), std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new(dotnet)
        .arg("exec")
        .arg("--runtimeconfig")
        .args([&config, program])
        .env("DOTNET_JitDisasm", "*")
        .env("DOTNET_JitDisasmWithCodeBytes", "1")
        .env("DOTNET_JitStdOutFile", &file)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let _ = std::fs::remove_file(&file);
    Some(text)
}

fn rule_at(method: &Method, offset: usize) -> Rule {
    method.steps.iter().rev().find(|step| step.offset <= offset).unwrap().rule
}

fn replaced_m(method: &Method) -> Option<i32> {
    method.steps.iter().find_map(|step| match step.rule.cfa {
        Cfa::Osr { tier0_bp_offset } => Some(tier0_bp_offset),
        _ => None,
    })
}

/// Whether an epilogue's first instruction says the same as the body's rule.
fn same_frame(epilogue: Rule, body: Rule, shape: Shape) -> bool {
    let cfa = match (epilogue.cfa, body.cfa, shape) {
        (Cfa::Sp(a), Cfa::Sp(b) | Cfa::BpOrSp { sp_offset: b, .. }, _) => a == b,
        (Cfa::Bp(a), Cfa::Bp(b) | Cfa::BpOrSp { bp_offset: b, .. }, _) => a == b,
        (Cfa::Sp(a), Cfa::Osr { tier0_bp_offset }, Shape::Osr { m }) => {
            a == m + tier0_bp_offset + 32
        }
        (Cfa::Bp(a), Cfa::Osr { tier0_bp_offset }, _) => a == tier0_bp_offset + 32,
        _ => false,
    };
    cfa && epilogue.bp == body.bp
}

#[derive(Debug, Default)]
struct Tally {
    methods: usize,
    replacing: usize,
    /// Replacing versions whose M is that of a listed unoptimised version.
    replaced_known: usize,
    funclets: usize,
    epilogues: usize,
    wrong: Vec<String>,
}

fn check(listed: &Listed, unoptimised: &HashMap<&str, Vec<i32>>, tally: &mut Tally) {
    let method = Method::read(&listed.code, None);
    let name = &listed.name;
    let mut wrong = |what: String| tally.wrong.push(format!("{name}: {what}"));
    let framed = matches!(method.shape, Shape::Framed { .. } | Shape::Osr { .. });
    if framed != listed.framed || listed.replacing != matches!(method.shape, Shape::Osr { .. }) {
        wrong(format!("{:?} {:02x?}", method.shape, &listed.code[..listed.code.len().min(40)]));
    }
    if method.funclets != listed.funclets {
        wrong(format!("{} funclets of {}", method.funclets, listed.funclets));
    }
    let mut starts = Vec::new();
    while let Some(next) = Instruction::decode(&listed.code[starts.last().map_or(0, |s| *s)..]) {
        if starts.is_empty() {
            starts.push(0);
        }
        starts.push(starts[starts.len() - 1] + next.len);
    }
    if starts.last() != Some(&listed.code.len()) {
        wrong(format!("read to {:?} of {}", starts.last(), listed.code.len()));
    }
    if let Some(missed) = listed.starts.iter().find(|start| !starts.contains(start)) {
        wrong(format!("an instruction begins at {missed}"));
    }
    let mut inside = false;
    for &at in &listed.starts {
        let rule = epilogue(&listed.code[at..]);
        let body = rule_at(&method, at);
        if let (Some(rule), false) = (rule, inside) {
            tally.epilogues += 1;
            if !same_frame(rule, body, method.shape) {
                wrong(format!("+{at}: {rule:?} in {body:?}"));
            }
        }
        inside = rule.is_some();
    }
    tally.methods += 1;
    tally.funclets += method.funclets;
    if listed.replacing {
        tally.replacing += 1;
        let known = unoptimised.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let m = replaced_m(&method);
        tally.replaced_known += usize::from(m.is_some_and(|m| known.contains(&m)));
    }
}

#[test]
fn every_compiled_method() {
    let Some(program) = rig::files("every_compiled_method", &["plain.dll"])
        .into_iter()
        .find(|path| path.with_extension("net8.0.runtimeconfig.json").is_file())
    else {
        return;
    };
    for (version, settings) in
        [("8.0", &TIERED[..]), ("9.0", &TIERED), ("8.0", &OPTIMISED), ("9.0", &OPTIMISED)]
    {
        let Some(text) = listing(&program, version, settings) else {
            eprintln!("SKIPPED every_compiled_method: the rig has no dotnet");
            return;
        };
        let (methods, mixed) = listing::parse(&text);
        let mut unoptimised: HashMap<&str, Vec<i32>> = HashMap::new();
        for listed in methods.iter().filter(|listed| listed.unoptimised) {
            if let Shape::Framed { m } = Method::read(&listed.code, None).shape {
                unoptimised.entry(&listed.name).or_default().push(m);
            }
        }
        let mut tally = Tally::default();
        for listed in &methods {
            check(listed, &unoptimised, &mut tally);
        }
        println!("{version} {settings:?}: {tally:?}, {mixed} mixed listings");
        assert!(tally.methods > 100, "{tally:?}");
        // Two threads may have mixed up their headlines.
        assert!(tally.wrong.len() * 200 <= tally.methods, "{tally:#?}");
        if settings.len() == TIERED.len() {
            assert!(tally.replacing > 10, "{tally:?}");
            // An unoptimised version may be among the mixed listings.
            assert!(tally.replaced_known * 10 >= tally.replacing * 9, "{tally:?}");
        }
    }
}
