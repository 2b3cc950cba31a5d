//! The closure as text: a short summary if it is clean, else each offence with the way to it.

use std::fmt::Write;

use super::reach::{Closure, Offence};
use super::scan::How;

/// The text for a library of that name.
pub fn text(closure: &Closure, library: &str) -> String {
    let mut out = String::new();
    for offence in &closure.offences {
        write_offence(&mut out, offence);
    }
    if !closure.offences.is_empty() {
        let _ = writeln!(out, "Lines of an address: addr2line -fCie {library} ADDRESS\n");
    }
    for doubt in &closure.doubts {
        let _ = writeln!(out, "doubt: {doubt}");
    }
    let _ = writeln!(
        out,
        "{library}: {} handler(s) reach {} functions, {} bytes of code",
        closure.handlers.len(),
        closure.functions.len(),
        closure.bytes
    );
    for function in &closure.functions {
        let _ = writeln!(out, "  function     {function}");
    }
    for (import, reason) in &closure.imports {
        let _ = writeln!(out, "  import       {import} ({reason})");
    }
    for (number, reason) in &closure.system_calls {
        let _ = writeln!(out, "  system call  {number} {reason}");
    }
    for (function, (count, reason)) in &closure.indirect {
        let _ = writeln!(out, "  indirect     {count} in {function} ({reason})");
    }
    out
}

fn write_offence(out: &mut String, offence: &Offence) {
    let _ = writeln!(out, "offence: {}", offence.what);
    let _ = writeln!(out, "  rule: {}", offence.rule.why());
    for (depth, step) in offence.path.iter().enumerate() {
        let verb = match step.how {
            Some(How::Call) => "calls",
            Some(How::Jump) => "jumps to",
            Some(How::Address) => "takes the address of",
            None => "does it",
        };
        let indent = depth * 2;
        let _ = writeln!(out, "  {:indent$}{} {verb}, at {:#x}", "", step.function, step.at);
    }
    let _ = writeln!(out, "  what to do: {}\n", offence.rule.advice());
}
