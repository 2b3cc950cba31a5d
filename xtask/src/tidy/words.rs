//! Words that have no place somewhere: each table row is an invariant of `ARCHITECTURE.md`.

use super::source::Source;
use super::{Finding, finding};

/// Where a word is forbidden.
enum Place {
    /// In all Rust files, tests too.
    Everywhere,
    /// In what the host process loads, tests aside.
    Host,
    /// In these crates, tests aside.
    Crates(&'static [&'static str]),
}

struct Forbidden {
    words: &'static [&'static str],
    place: Place,
    /// Beginnings of paths where it is allowed.
    except: &'static [&'static str],
    what: &'static str,
}

const FORBIDDEN: [Forbidden; 8] = [
    Forbidden {
        words: &["todo!", "unimplemented!"],
        place: Place::Everywhere,
        except: &[],
        what: "unfinished code: finish it, or return an error that says what is missing",
    },
    Forbidden {
        words: &["#[ignore"],
        place: Place::Everywhere,
        except: &[],
        what: "a test that does not run: make it run, or remove it",
    },
    Forbidden {
        // `use std::thread` too: `thread::spawn` would then not be that of `sys`.
        words: &["thread::Builder", "std::thread::spawn", "thread::scope", "use std::thread"],
        place: Place::Host,
        except: &["crates/sys/src/spawned.rs"],
        what: "a thread of its own: use sys::thread::spawn, which blocks the host's signals on it",
    },
    Forbidden {
        words: &["no_mangle", "export_name"],
        place: Place::Host,
        except: &["crates/agent/"],
        what: "an exported symbol: only `agent` exports, since names clash in the host",
    },
    Forbidden {
        words: &[
            "std::net",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
            "UnixListener",
            "UnixDatagram",
        ],
        place: Place::Host,
        except: &[
            "crates/export/",
            "crates/sys/src/linux/control_socket.rs",
            "crates/sys/src/linux/unix_socket.rs",
        ],
        what: "a socket: in the host only `export` opens sockets (`unix_socket` for it), and \
               `control_socket` one that is a file",
    },
    Forbidden {
        words: &["std::fs", "std::env", "std::process", "Instant::now", "SystemTime::now"],
        place: Place::Crates(&["model", "metadata", "profile", "config"]),
        except: &[],
        what: "files, environment or clock in a crate of pure data: let the caller pass it in",
    },
    Forbidden {
        words: &["extern crate"],
        place: Place::Crates(&["model", "signal"]),
        except: &[],
        what: "a library beside `core`: handlers may not allocate; move the code to another crate",
    },
    Forbidden {
        words: &["static mut"],
        place: Place::Everywhere,
        except: &[],
        what: "a mutable static: use an atomic or a lock",
    },
];

/// Checks a file's words; `host` are the crates that the host process loads.
pub fn check(source: &Source, host: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let own_crate = source.crate_name();
    let in_host = own_crate.is_some_and(|name| host.iter().any(|host| host == name));
    for row in &FORBIDDEN {
        if row.except.iter().any(|path| source.path.starts_with(path)) {
            continue;
        }
        let lines = match row.place {
            Place::Everywhere => source.code.len(),
            Place::Host if in_host => source.tests_from,
            Place::Crates(names) if own_crate.is_some_and(|own| names.contains(&own)) => {
                source.tests_from
            }
            Place::Host | Place::Crates(_) => 0,
        };
        for (number, line) in source.code.iter().take(lines).enumerate() {
            if row.words.iter().any(|word| has_word(line, word)) {
                findings.push(finding(source, number, row.what));
            }
        }
    }
    if in_host && source.path != "crates/model/src/limits.rs" {
        let limits = source.product().filter(|(_, line)| is_public_limit(line));
        let what = "a limit that others see: move it to crates/model/src/limits.rs, with its unit \
                    and its reason, or make it private";
        findings.extend(limits.map(|(number, _)| finding(source, number, what)));
    }
    findings
}

/// Whether a line has a word, and not as part of a longer one.
pub fn has_word(line: &str, word: &str) -> bool {
    // The apostrophe is that of a lifetime.
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let starts = !word.starts_with(is_name) || !before.is_some_and(is_name);
        let ends = !word.ends_with(is_name) || !after.is_some_and(is_name);
        starts && ends
    })
}

fn is_public_limit(line: &str) -> bool {
    let line = line.trim();
    let Some((before, rest)) = line.split_once("const ") else { return false };
    let name = rest.split([':', ' ']).next().unwrap_or_default();
    before.starts_with("pub") && name.ends_with("_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let host = ["engine".to_owned(), "sys".to_owned(), "model".to_owned(), "agent".to_owned()];
        check(&Source::new(path, text), &host).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn words_are_found_where_they_are_forbidden() {
        let unfinished = concat!("fn a() {\n    to", "do!()\n}");
        assert_eq!(lines("crates/engine/src/a.rs", unfinished), [2]);
        assert_eq!(lines("crates/cli/tests/a.rs", unfinished), [2]);
        assert_eq!(lines("crates/engine/src/a.rs", &unfinished.replace("to", "// to")), [0; 0]);
        assert_eq!(lines("xtask/src/a.rs", concat!("#[ig", "nore]\nfn a() {}")), [1]);
        let thread = "fn a() {}\n\nfn b() { std::thread::spawn(a); }";
        assert_eq!(lines("crates/engine/src/a.rs", thread), [3]);
        assert_eq!(lines("crates/sys/src/spawned.rs", thread), [0; 0]);
        assert_eq!(lines("crates/cli/src/a.rs", thread), [0; 0]);
        assert_eq!(lines("crates/engine/tests/a.rs", thread), [0; 0]);
        let tested = format!("fn c() {{}}\n#[cfg(test)]\nmod tests {{\n{thread}\n}}");
        assert_eq!(lines("crates/engine/src/a.rs", &tested), [0; 0]);
        assert_eq!(lines("crates/engine/src/a.rs", "#[unsafe(no_mangle)]"), [1]);
        assert_eq!(lines("crates/agent/src/a.rs", "#[unsafe(no_mangle)]"), [0; 0]);
        assert_eq!(lines("crates/engine/src/a.rs", "use std::net::TcpStream;"), [1]);
        assert_eq!(lines("crates/profile/src/a.rs", "let now = Instant::now();"), [1]);
        assert_eq!(lines("crates/engine/src/a.rs", "let now = Instant::now();"), [0; 0]);
        assert_eq!(lines("crates/signal/src/a.rs", "extern crate alloc;"), [1]);
    }

    #[test]
    fn limits_belong_to_the_model() {
        assert_eq!(lines("crates/engine/src/a.rs", "pub const A_MAX: usize = 1;"), [1]);
        assert_eq!(lines("crates/engine/src/a.rs", "    pub(crate) const A_MAX: usize = 1;"), [1]);
        assert_eq!(lines("crates/engine/src/a.rs", "const A_MAX: usize = 1;"), [0; 0]);
        assert_eq!(lines("crates/engine/src/a.rs", "pub const A: usize = B_MAX;"), [0; 0]);
        assert_eq!(lines("crates/model/src/limits.rs", "pub const A_MAX: usize = 1;"), [0; 0]);
        assert_eq!(lines("crates/cli/src/a.rs", "pub const A_MAX: usize = 1;"), [0; 0]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("x unsafe {", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(!has_word("mytodo!()", "todo!"));
        assert!(!has_word("&'static mut T", "static mut"));
    }
}
