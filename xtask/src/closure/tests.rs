//! Each rule against a library whose handlers break it (`testdata/handlers.rs`).

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::image::Image;
use super::reach::{Closure, follow};
use super::report;
use super::rules::{Named, Policy, Rule, by_name, crate_of};

const LENIENT: Policy = Policy {
    handlers: &[],
    // The empty name is that of functions without a path, as assembly has them.
    crates: &["handlers", "core", ""],
    imports: &[("memcpy", "copies bytes")],
    indirect: &[],
    system_calls: &[],
    functions_min: 0,
    bytes_min: 0,
};

fn compile(name: &str, arguments: &[&str]) -> Image {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crate::workspace::metadata().expect("metadata").target_directory.join("closure");
    std::fs::create_dir_all(&folder).expect("a folder");
    // Another test process may be writing its own.
    let library = folder.join(format!("{name}-{}.so", std::process::id()));
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-name=handlers", "--crate-type=cdylib"])
        .args(["-Copt-level=2", "-Ccodegen-units=1", "-Clink-arg=-Wl,--no-relax,--no-gc-sections"])
        .args(arguments)
        .arg("-o")
        .arg(&library)
        .arg(own.join("testdata/handlers.rs"))
        .output()
        .expect("rustc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&library).expect("the library");
    std::fs::remove_file(&library).expect("removed");
    Image::parse(&bytes).expect("an ELF")
}

fn library() -> &'static Image {
    static LIBRARY: OnceLock<Image> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("now", &["-Clink-arg=-Wl,-z,now"]))
}

fn closure(handler: &'static str) -> Closure {
    let handlers: &'static [&'static str] = Box::leak(Box::new([handler]));
    follow(library(), &Policy { handlers, ..LENIENT })
}

/// The rules a handler breaks.
fn broken(closure: &Closure) -> Vec<Rule> {
    let mut rules: Vec<Rule> = closure.offences.iter().map(|offence| offence.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

/// The way to the first offence against a rule: functions, and what it is.
fn way(closure: &Closure, rule: Rule) -> Vec<String> {
    let text = || report::text(closure, "the library");
    let offence = closure.offences.iter().find(|offence| offence.rule == rule);
    let offence = offence.unwrap_or_else(|| panic!("{rule:?} is not broken:\n{}", text()));
    let functions = offence.path.iter().map(|step| step.function.clone());
    functions.chain([offence.what.clone()]).collect()
}

#[track_caller]
fn check(handler: &'static str, rules: &[Rule], expected_way: &[&str]) {
    let closure = closure(handler);
    assert_eq!(broken(&closure), rules, "{handler}:\n{}", report::text(&closure, "the library"));
    if let [rule, ..] = rules {
        assert_eq!(way(&closure, *rule), expected_way, "{handler}");
    }
    assert_eq!(closure.doubts, [""; 0], "{handler}");
}

#[test]
fn clean_handlers_pass() {
    check("clean", &[], &[]);
    check("leaf", &[], &[]);
    check("pads", &[], &[]);
    check("landing_pad", &[], &[]);
    let copies = closure("clean");
    assert!(copies.imports.contains_key("memcpy"), "{copies:?}");
    assert!(copies.bytes > 8);
    assert!(closure("landing_pad").functions.contains("leaf"));
}

#[test]
fn rust_allocation_is_found_through_helpers() {
    let closure = closure("allocates");
    let way = way(&closure, Rule::Allocation);
    assert_eq!(way[..3], ["allocates", "handlers::helper_middle", "handlers::helper_allocates"]);
    assert!(way[3].contains("__rust_") && way[3].contains("alloc"), "{way:?}");
    let text = report::text(&closure, "the library");
    assert!(text.contains("the heap's lock") && text.contains("what to do"), "{text}");
    assert!(text.contains("handlers::helper_middle calls, at 0x"), "{text}");
}

#[test]
fn locks_are_found() {
    assert!(broken(&closure("locks")).contains(&Rule::Lock));
    check("locks_pthread", &[Rule::Lock], &["locks_pthread", "pthread_mutex_lock"]);
    check("waits_on_futex", &[Rule::Lock], &["waits_on_futex", "makes the system call futex"]);
}

#[test]
fn panics_are_found() {
    check("panics", &[Rule::Panic], &["panics", "core::panicking::panic_bounds_check"]);
}

#[test]
fn thread_local_storage_is_found() {
    let closure = closure("touches_tls");
    assert!(broken(&closure).contains(&Rule::ThreadLocal));
    let deed = "touches memory through fs, gs or a thread-local relocation";
    check("touches_fs", &[Rule::ThreadLocal], &["touches_fs", deed]);
}

#[test]
fn unwinding_is_found_where_it_is_called() {
    let closure = closure("unwinds");
    assert_eq!(broken(&closure), [Rule::Unwinding]);
    assert_eq!(way(&closure, Rule::Unwinding).last().map(String::as_str), Some("_Unwind_Resume"));
}

#[test]
fn imports_are_found_by_every_road() {
    check("calls_import", &[Rule::Import], &["calls_import", "getpid"]);
    check("through_got", &[Rule::Allocation], &["through_got", "malloc"]);
    check("through_register", &[Rule::Allocation], &["through_register", "malloc"]);
    let closure = closure("through_plt");
    assert_eq!(broken(&closure), [Rule::Allocation]);
    let way = way(&closure, Rule::Allocation);
    assert!(way.len() == 3 && way[1].starts_with("stub at"), "{way:?}");
}

#[test]
fn own_functions_are_found_by_every_road() {
    for handler in [
        "through_own_got",
        "tail_jump",
        "conditional_jump",
        "falls_through",
        "takes_address",
        "reads_table_of_pointers",
        "jump_table",
        "jump_table_unchecked",
    ] {
        let closure = closure(handler);
        assert_eq!(broken(&closure), [Rule::Allocation], "{handler}");
        let way = way(&closure, Rule::Allocation);
        assert_eq!(way[..2], [handler, "asm_allocates"]);
        assert_eq!(way.last().map(String::as_str), Some("malloc"));
    }
}

#[test]
fn what_cannot_be_told_is_an_offence() {
    let deed = "calls or jumps through a pointer";
    check("calls_pointer", &[Rule::Indirect], &["calls_pointer", deed]);
    check("through_either", &[Rule::Indirect], &["through_either", deed]);
    check("jump_unknown", &[Rule::Indirect], &["jump_unknown", deed]);
    let bytes = "holds bytes that are no instruction";
    check("undecodable", &[Rule::Undecodable], &["undecodable", bytes]);
}

#[test]
fn system_calls_are_found() {
    let deed = "makes a system call whose number can't be told";
    check("calls_any", &[Rule::SystemCall], &["calls_any", deed]);
    check("sleeps", &[Rule::SystemCall], &["sleeps", "makes the system call 35"]);
    check("asks_thread_id", &[Rule::SystemCall], &["asks_thread_id", "makes the system call 186"]);
    let policy =
        Policy { handlers: &["asks_thread_id"], system_calls: &[(186, "gettid")], ..LENIENT };
    let closure = follow(library(), &policy);
    assert!(closure.offences.is_empty() && closure.doubts.is_empty(), "{closure:?}");
}

#[test]
fn a_handler_stays_in_its_crates() {
    let closure = closure("calls_std");
    assert!(broken(&closure).contains(&Rule::Outside));
    assert_eq!(way(&closure, Rule::Outside)[0], "calls_std");
}

#[test]
fn indirect_calls_are_allowed_by_function_and_number() {
    let listed = Policy {
        handlers: &["calls_pointer"],
        indirect: &[("calls_pointer", 1, "why")],
        ..LENIENT
    };
    let closure = follow(library(), &listed);
    assert!(closure.offences.is_empty() && closure.doubts.is_empty(), "{closure:?}");
    let none = Policy { indirect: &[("calls_pointer", 0, "why")], ..listed };
    assert_eq!(broken(&follow(library(), &none)), [Rule::Indirect]);
    let elsewhere = Policy { indirect: &[("clean", 1, "why")], ..listed };
    assert_eq!(broken(&follow(library(), &elsewhere)), [Rule::Indirect]);
    let gone = Policy { handlers: &["leaf"], indirect: &[("leaf", 1, "why")], ..LENIENT };
    assert_eq!(follow(library(), &gone).doubts.len(), 1);
}

#[test]
fn seeing_too_little_is_no_success() {
    let doubts = |policy: &Policy| follow(library(), policy).doubts.len();
    assert_eq!(doubts(&Policy { handlers: &["no_such_handler"], ..LENIENT }), 1);
    assert_eq!(doubts(&Policy { handlers: &["leaf", "gone"], ..LENIENT }), 1);
    assert_eq!(doubts(&Policy { handlers: &["leaf"], ..LENIENT }), 0);
    assert_eq!(doubts(&Policy { handlers: &["leaf"], functions_min: 2, ..LENIENT }), 1);
    assert_eq!(doubts(&Policy { handlers: &["leaf"], bytes_min: 2, ..LENIENT }), 1);
    let calls = Policy { handlers: &["leaf"], system_calls: &[(186, "gettid")], ..LENIENT };
    assert_eq!(doubts(&calls), 1);
    assert!(Image::parse(b"no library").is_err());
}

#[test]
fn imports_bound_at_their_first_call_are_found() {
    let arguments = ["-Crelro-level=partial", "-Clink-arg=-Wl,-z,lazy"];
    let lazy = compile("lazy", &arguments);
    let closure = follow(&lazy, &Policy { handlers: &["copies"], ..LENIENT });
    assert_eq!(broken(&closure), [Rule::LazyImport]);
    let eager = follow(library(), &Policy { handlers: &["copies"], ..LENIENT });
    assert_eq!(broken(&eager), []);
}

#[test]
fn packed_relocations_are_read() {
    let packed = compile("packed", &["-Clink-arg=-Wl,-z,pack-relative-relocs"]);
    for handler in ["through_own_got", "reads_table_of_pointers"] {
        let handlers: &'static [&'static str] = Box::leak(Box::new([handler]));
        let closure = follow(&packed, &Policy { handlers, ..LENIENT });
        assert_eq!(broken(&closure), [Rule::Allocation], "{handler}");
    }
}

#[test]
fn names_are_judged() {
    let rule = |raw: &str, demangled: &str| by_name(&Named { raw, demangled });
    assert_eq!(rule("x", "__rustc::__rust_alloc"), Some(Rule::Allocation));
    assert_eq!(rule("__rust_realloc", "__rust_realloc"), Some(Rule::Allocation));
    assert_eq!(rule("x", "<alloc::vec::Vec<T> as Clone>::clone"), Some(Rule::Allocation));
    assert_eq!(rule("free@GLIBC_2.2.5", "free@GLIBC_2.2.5"), Some(Rule::Allocation));
    assert_eq!(rule("x", "__rustc::rust_begin_unwind"), Some(Rule::Panic));
    assert_eq!(rule("_Unwind_Resume", "_Unwind_Resume"), Some(Rule::Unwinding));
    assert_eq!(rule("rust_eh_personality", "rust_eh_personality"), Some(Rule::Unwinding));
    assert_eq!(rule("__tls_get_addr", "__tls_get_addr"), Some(Rule::ThreadLocal));
    assert_eq!(rule("x", "std::sys::sync::once::futex::Once::call"), Some(Rule::Lock));
    assert_eq!(rule("pthread_once", "pthread_once"), Some(Rule::Lock));
    assert_eq!(rule("x", "core::fmt::write"), Some(Rule::Formatting));
    assert_eq!(rule("x", "<u64 as core::fmt::Display>::fmt"), Some(Rule::Formatting));
    assert_eq!(rule("x", "signal::walk::walk"), None);
    assert_eq!(rule("x", "signal::ring::Ring<T>::free_slots"), None);
}

#[test]
fn crates_are_told_from_names() {
    assert_eq!(crate_of("signal::walk::walk"), "signal");
    assert_eq!(crate_of("<signal::walk::Walker<R>>::run"), "signal");
    assert_eq!(crate_of("<&mut signal::ring::Ring<T> as core::fmt::Debug>::fmt"), "signal");
    assert_eq!(crate_of("<u32 as core::convert::TryFrom<i32>>::try_from"), "core");
    assert_eq!(crate_of("engine::tick"), "engine");
    assert_eq!(crate_of("memcpy"), "");
}
