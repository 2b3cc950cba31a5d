//! A Dockerfile's instructions, as far as the recipes use them.

use anyhow::{Context, Result, ensure};

/// All keywords that a Dockerfile may begin a line with.
const KEYWORDS: [&str; 17] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// A stage: from a `FROM` to the next.
#[derive(Debug)]
pub struct Stage {
    /// The image that it begins with.
    pub from: String,
    /// What others call it.
    pub name: Option<String>,
    /// What follows: keyword and arguments.
    pub instructions: Vec<(String, String)>,
}

impl Stage {
    /// The arguments of all instructions of that keyword.
    pub fn all(&self, keyword: &str) -> Vec<&str> {
        let of = self.instructions.iter().filter(|(found, _)| found == keyword);
        of.map(|(_, arguments)| arguments.as_str()).collect()
    }

    /// The only instruction of that keyword.
    ///
    /// # Errors
    /// If there is none, or more.
    pub fn only(&self, keyword: &str) -> Result<&str> {
        let all = self.all(keyword);
        ensure!(all.len() == 1, "{keyword} {all:?}");
        all.first().copied().context("none")
    }

    /// The variables of all `ENV`s, the image's own before them put in, as Docker does.
    ///
    /// # Errors
    /// If one is not written `NAME="VALUE"`.
    pub fn variables(&self, image: &[(String, String)]) -> Result<Vec<(String, String)>> {
        let mut variables = image.to_vec();
        for arguments in self.all("ENV") {
            let mut rest = arguments;
            while !rest.is_empty() {
                let (name, after) = rest.split_once("=\"").context(rest.to_owned())?;
                let end = closing_quote(after).context("a quote is not closed")?;
                let value = expanded(&after[..end], &variables)?;
                variables.retain(|(present, _)| present != name);
                variables.push((name.to_owned(), value));
                rest = after[end + 1..].trim_start();
            }
        }
        Ok(variables)
    }
}

/// The stages of a Dockerfile.
///
/// # Errors
/// If a line is no instruction, or comes before the first `FROM`.
pub fn stages(text: &str) -> Result<Vec<Stage>> {
    let mut stages: Vec<Stage> = Vec::new();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    for line in joined.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (keyword, arguments) = line.split_once(' ').context(line.to_owned())?;
        ensure!(KEYWORDS.contains(&keyword), "{keyword} is no instruction");
        let arguments = arguments.trim().to_owned();
        if keyword == "FROM" {
            let words: Vec<_> = arguments.split_whitespace().collect();
            let name = match words.as_slice() {
                [_] => None,
                [_, "AS", name] => Some((*name).to_owned()),
                _ => anyhow::bail!("FROM {arguments}"),
            };
            let from = words.first().context("no image")?.to_string();
            stages.push(Stage { from, name, instructions: Vec::new() });
        } else {
            let stage = stages.last_mut().with_context(|| format!("{keyword} before FROM"))?;
            stage.instructions.push((keyword.to_owned(), arguments));
        }
    }
    Ok(stages)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// With `\x` as `x`, and the only expansion that corprof writes: `${N:+$N:}`.
fn expanded(text: &str, variables: &[(String, String)]) -> Result<String> {
    let mut value = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '$']) {
        value.push_str(&rest[..at]);
        let special = &rest[at..];
        if let Some(escaped) = special.strip_prefix('\\') {
            let letter = escaped.chars().next().context("a lone backslash")?;
            value.push(letter);
            rest = &escaped[letter.len_utf8()..];
            continue;
        }
        let inner = special.strip_prefix("${").context("an expansion of another kind")?;
        let (inner, after) = inner.split_once('}').context("no end of an expansion")?;
        let (name, alternative) = inner.split_once(":+").context(inner.to_owned())?;
        ensure!(alternative == format!("${name}:"), "{inner}");
        if let Some((_, present)) = variables.iter().find(|(present, _)| present == name)
            && !present.is_empty()
        {
            value.push_str(present);
            value.push(':');
        }
        rest = after;
    }
    value.push_str(rest);
    Ok(value)
}

#[test]
fn instructions_and_variables_are_read() -> Result<()> {
    let text =
        "# c\nFROM a AS b\nFROM x:1\nENV A=\"1\" \\\n    B=\"${B:+$B:}q \\\"\\$\\\\\"\nRUN y\n";
    let found = stages(text)?;
    let [first, second] = found.as_slice() else { anyhow::bail!("{found:?}") };
    ensure!(first.name.as_deref() == Some("b") && second.from == "x:1");
    ensure!(second.only("RUN")? == "y" && second.only("USER").is_err());
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [pair("A", "1"), pair("B", "q \"$\\")];
    ensure!(second.variables(&[])? == expected, "{:?}", second.variables(&[])?);
    let expected = [pair("A", "1"), pair("B", "z:q \"$\\")];
    ensure!(second.variables(&[pair("B", "z")])? == expected);
    ensure!(stages("RUN x\n").is_err() && stages("FROM a\nRUM b\n").is_err());
    Ok(())
}
