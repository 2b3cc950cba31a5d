//! Tips for what clap finds wrong: the right form of what was meant.

use clap::Arg;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use config::OPTIONS;

/// What `--fail-if` takes, which a shell takes for itself without quotes.
const FAIL_IF: &str = "in quotes, or the shell takes the > for itself: --fail-if '>5%'";
/// Where pauses are shown, which are no column of tables.
const PAUSES: &str = "`corprof flamegraph --value gc` and `corprof convert --value gc` show the \
                      garbage collector's pauses";

/// Adds a tip to an error, if there is one.
pub fn with_tip(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if let Some(tip) = tip(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if let Some(flag) = same_letters(&error, command) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(flag));
    }
    error
}

fn tip(error: &clap::Error) -> Option<String> {
    let argument = text(error, ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument => as_option(argument),
        ErrorKind::InvalidValue => {
            let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
            let is_of = |flag: &str| argument.split(' ').next() == Some(flag);
            match value {
                "" if is_of("--fail-if") => Some(FAIL_IF.to_owned()),
                "gc" if is_of("--value") => Some(PAUSES.to_owned()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The right form of a setting that is written as `cpu-interval=5ms`, or as a variable.
fn as_option(word: &str) -> Option<String> {
    let (name, value) = word.split_once('=')?;
    let name = name.trim_start_matches('-').to_ascii_lowercase().replace('_', "-");
    let name = name.strip_prefix("corprof-").unwrap_or(&name);
    let by_flag = OPTIONS.iter().filter_map(|option| option.flag).find(|flag| *flag == name);
    let by_var = || {
        let var = format!("CORPROF_{}", name.to_ascii_uppercase().replace('-', "_"));
        OPTIONS.iter().find(|option| option.var == var)?.flag
    };
    let flag = by_flag.or_else(by_var)?;
    let quote = if value.contains(char::is_whitespace) { "'" } else { "" };
    Some(format!("a setting is an option, with two dashes: --{flag} {quote}{value}{quote}"))
}

/// The flag with the same letters, which clap's measure of likeness misses in short words: `--fro`
/// for `--for`.
fn same_letters(error: &clap::Error, command: &clap::Command) -> Option<String> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    if !is_unknown || error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let wanted = letters(text(error, ContextKind::InvalidArg)?.trim_start_matches('-'));
    let flags = command.get_subcommands().flat_map(|command| command.get_arguments());
    let mut flags = flags.filter_map(Arg::get_long);
    flags.find(|flag| letters(flag) == wanted).map(|flag| format!("--{flag}"))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;

    fn said(words: &[&str]) -> String {
        let mut command = command();
        let words = ["corprof"].iter().chain(words);
        let error = command.try_get_matches_from_mut(words).unwrap_err();
        with_tip(error.with_cmd(&command), &command).to_string()
    }

    #[test]
    fn the_right_form_is_told() {
        for (words, tip) in [
            (&["ctl", "1", "set", "cpu-interval=5ms"][..], "two dashes: --cpu-interval 5ms\n"),
            (&["ctl", "1", "set", "cpu_interval=5ms"], "two dashes: --cpu-interval 5ms\n"),
            (&["ctl", "1", "set", "CORPROF_CPU_INTERVAL=5ms"], "dashes: --cpu-interval 5ms\n"),
            (&["ctl", "1", "set", "CORPROF_OUTPUT_DIR=a b"], "two dashes: --out 'a b'\n"),
            (&["diff", "a", "b", "--fail-if"], "tip: in quotes, or the shell takes the > for"),
            (&["diff", "a", "b", "--fail-if", "--json"], "itself: --fail-if '>5%'\n"),
            (&["top", "a", "--value", "gc"], "tip: `corprof flamegraph --value gc`"),
            (&["run", "--fro", "5s", "a"], "similar argument exists: '--for'"),
        ] {
            let said = said(words);
            assert!(said.contains(tip), "{words:?}: {said}");
        }
        for words in [&["ctl", "1", "set", "colour=red"][..], &["top", "a", "--value", "x"]] {
            let said = said(words);
            assert!(!said.contains("tip: a setting") && !said.contains("flamegraph"), "{said}");
        }
    }
}
