//! The repository's files, and Rust code without its comments and strings.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// All text files of the repository.
pub struct Sources {
    /// Sorted by path.
    pub files: Vec<Source>,
}

/// A text file.
pub struct Source {
    /// From the repository's root, with `/`.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// Its lines with comments, strings and characters blanked; empty if it is not Rust.
    pub code: Vec<String>,
    /// Where its `mod tests` begins, or its end; 0 for a file that is a test.
    pub tests_from: usize,
}

impl Sources {
    /// Reads what git knows, and what it would add.
    pub fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("git ls-files")?;
        if !output.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        }
        let names = String::from_utf8(output.stdout).context("a file's name")?;
        let mut files = Vec::new();
        for path in names.split_terminator('\0') {
            // What git knows may be deleted; what is not text is not ours to judge.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            let Ok(text) = String::from_utf8(bytes) else { continue };
            files.push(Source::new(path, &text));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        let mut sources = Self { files };
        sources.mark_test_modules();
        Ok(sources)
    }

    /// The file at a path.
    pub fn get(&self, path: &str) -> Option<&Source> {
        self.files.iter().find(|source| source.path == path)
    }

    /// A module declared under `#[cfg(test)]` is a test, its file's name notwithstanding; so is one
    /// of the feature `oracle`, which no build for production has.
    fn mark_test_modules(&mut self) {
        let mut tests = Vec::new();
        for source in &self.files {
            let folder = source.module_folder();
            for (number, pair) in source.code.windows(2).enumerate() {
                let name = pair[1]
                    .trim()
                    .trim_start_matches("pub ")
                    .strip_prefix("mod ")
                    .and_then(|s| s.strip_suffix(';'));
                // The name in quotes is a string, hence blanked in the code.
                let is_test = pair[0].trim() == "#[cfg(test)]" || is_oracle(&source.lines, number);
                if let (true, Some(name)) = (is_test, name) {
                    tests.push(format!("{folder}/{name}.rs"));
                    tests.push(format!("{folder}/{name}/"));
                }
            }
        }
        for source in &mut self.files {
            let is = |test: &String| {
                source.path == *test || (test.ends_with('/') && source.path.starts_with(test))
            };
            if tests.iter().any(is) {
                source.tests_from = 0;
            }
        }
    }
}

/// Whether the line of that number makes the next one part of the feature `oracle`.
fn is_oracle(lines: &[String], number: usize) -> bool {
    lines.get(number).is_some_and(|line| line.trim() == r#"#[cfg(feature = "oracle")]"#)
}

impl Source {
    /// A file of that content.
    pub fn new(path: &str, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_rust = path.ends_with(".rs");
        let code: Vec<String> =
            if is_rust { code(text).lines().map(str::to_owned).collect() } else { Vec::new() };
        let is_test = path.contains("tests/") || path.contains("testdata/");
        let mod_tests = code.windows(2).position(|pair| {
            pair[0].trim() == "#[cfg(test)]" && pair[1].trim().starts_with("mod tests")
        });
        let tests_from = if is_test { 0 } else { mod_tests.unwrap_or(lines.len()) };
        Self { path: path.to_owned(), lines, code, tests_from }
    }

    /// The code that is no test, with line numbers.
    pub fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().take(self.tests_from).map(String::as_str).enumerate()
    }

    /// The crate of a file under `crates/`.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// The file's name without `.rs`.
    pub fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// The folder in which the modules that this file declares lie.
    fn module_folder(&self) -> String {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match self.stem() {
            "lib" | "main" | "mod" => folder.to_owned(),
            stem => format!("{folder}/{stem}"),
        }
    }
}

/// Rust code with comments and the insides of strings and characters as blanks, line by line.
fn code(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let rest = &characters[at..];
        let length = match c {
            '/' if rest.get(1) == Some(&'/') => until(rest, 2, |rest| rest[0] == '\n', 0),
            '/' if rest.get(1) == Some(&'*') => block_comment(rest),
            'r' | 'b' | 'c' if !continues_name(&characters, at) => literal(rest).unwrap_or(0),
            '"' => string(rest, 1),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            out.push(c);
            at += 1;
        } else {
            let end = (at + length).min(characters.len());
            out.extend(characters[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

fn continues_name(characters: &[char], at: usize) -> bool {
    at > 0 && (characters[at - 1].is_alphanumeric() || characters[at - 1] == '_')
}

/// Length up to where `stop` holds, plus `extra`.
fn until(rest: &[char], from: usize, stop: impl Fn(&[char]) -> bool, extra: usize) -> usize {
    let found = (from..rest.len()).find(|at| stop(&rest[*at..]));
    found.map_or(rest.len(), |at| at + extra)
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// The length of a string that starts with its quote at `from - 1`.
fn string(rest: &[char], from: usize) -> usize {
    let mut at = from;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// The length of a literal with a prefix: `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#`, `c"…"`, `b'…'`.
fn literal(rest: &[char]) -> Option<usize> {
    let prefix = rest.iter().take(2).take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let raw = rest[..prefix].contains(&'r');
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    let quote = prefix + hashes;
    match rest.get(quote)? {
        '"' if raw => {
            let ends = |tail: &[char]| {
                tail[0] == '"'
                    && tail.iter().skip(1).take_while(|c| **c == '#').take(hashes).count() == hashes
            };
            Some(until(rest, quote + 1, ends, 1 + hashes))
        }
        '"' if hashes == 0 => Some(string(rest, quote + 1)),
        '\'' if hashes == 0 && !raw => character(&rest[quote..]).map(|length| quote + length),
        _ => None,
    }
}

/// The length of a character literal; `None` for a lifetime.
fn character(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|c| *c == '\'').map(|at| at + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked() {
        let check = |text: &str, expected: &str| {
            let code = code(text);
            assert_eq!(code.chars().count(), text.chars().count(), "{text}");
            let words: Vec<&str> = code.split_whitespace().collect();
            assert_eq!(words.join(" "), expected, "{text}");
        };
        check("a // todo!()\nb", "a b");
        check("a /* x /* y */ z */ b", "a b");
        check(r#"a("todo! \" x") b"#, "a( ) b");
        check("a(r#\"x \" y\"#) b", "a( ) b");
        check("a(br\"x\\\") b", "a( ) b");
        check("f::<'a>('\"', b'\\'', '\\u{41}') b", "f::<'a>( , , ) b");
        check("number\"x\"", "number");
        check("/// doc \" \nfn x() {}", "fn x() {}");
    }

    #[test]
    fn tests_are_told_from_the_product() {
        let source =
            Source::new("crates/a/src/b.rs", "//! B.\nfn b() {}\n#[cfg(test)]\nmod tests {\n}");
        assert_eq!(source.tests_from, 2);
        assert_eq!(Source::new("crates/a/tests/b.rs", "x\ny").tests_from, 0);
        let mut sources = Sources {
            files: vec![
                Source::new(
                    "crates/a/src/lib.rs",
                    "#[cfg(test)]\nmod golden;\nmod real;\n\
                     #[cfg(feature = \"oracle\")]\npub mod oracle;",
                ),
                Source::new("crates/a/src/golden.rs", "x\ny"),
                Source::new("crates/a/src/oracle.rs", "x\ny"),
                Source::new("crates/a/src/real.rs", "x\ny"),
            ],
        };
        sources.mark_test_modules();
        let from: Vec<usize> = sources.files.iter().map(|source| source.tests_from).collect();
        assert_eq!(from, [5, 0, 0, 2]);
    }
}
