//! The options as a page for people: `docs/configuration.md`.

use crate::option::{Kind, Opt};
use crate::options::OPTIONS;

const HEAD: &str = "\
# Configuration

<!-- Made from the declarations in crates/config; a test fails if it differs. To write it anew:
     CORPROF_WRITE_DOCS=1 cargo test -p config -->

The agent is set by environment variables; `corprof run` has a flag for each that makes sense there.
A flag counts more than its variable. An empty variable counts as not set. A value that makes no
sense gives one warning, the default is used, and the application runs on.

Durations are written `10ms`, `1s`, `250us` or `1.5s`. A number alone is milliseconds in a variable,
and refused in a flag.

| Variable | Flag of `corprof run` | Values | Default |
|---|---|---|---|
";

/// The whole page.
#[must_use]
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for option in &OPTIONS {
        page.push_str(&row(option));
    }
    for option in &OPTIONS {
        page.push_str(&section(option));
    }
    page
}

fn row(option: &Opt) -> String {
    let flag = option.flag.map_or("–".to_owned(), |flag| format!("`--{flag}`"));
    let default = if option.default.is_empty() {
        option.default_words.to_owned()
    } else {
        format!("`{}`", option.default)
    };
    format!("| `{}` | {flag} | {} | {default} |\n", option.var, option.values())
}

fn section(option: &Opt) -> String {
    let mut text = format!("\n## {}\n\n{}\n", option.var, option.help);
    if let Kind::Choice(choices) | Kind::Words { words: choices, .. } = &option.kind {
        text.push('\n');
        for choice in *choices {
            text.push_str(&format!("- `{}`: {}\n", choice.name, choice.help));
        }
    }
    if !option.aliases.is_empty() {
        let names: Vec<_> = option.aliases.iter().map(|name| format!("`{name}`")).collect();
        text.push_str(&format!("\nIf it is not set, the first of {} counts.\n", names.join(", ")));
    }
    text
}
