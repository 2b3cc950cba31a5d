//! Columns that line up: numbers first, then a name, which is fitted to a terminal's width and
//! whole when piped.

use std::io::IsTerminal;

use crate::names;

/// In less, lines would be of a word or two: they are left to the terminal to wrap, names whole.
const NARROWEST: u16 = 40;
/// Between two columns.
const GAP: &str = "  ";
/// A name is not made narrower than this, however wide the numbers are.
const NAME_NARROWEST: usize = 24;

/// What stands after a number and belongs to it.
const UNITS: [&str; 11] = ["ns", "us", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB"];

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The numbers, aligned at their right ends.
    pub numbers: Vec<String>,
    /// What they are of.
    pub name: String,
    /// More about it, shown where there is room; may be empty.
    pub note: String,
}

/// The width of lines; `None` if the output is not a terminal.
pub fn width(stream: &impl IsTerminal) -> Option<u16> {
    if !stream.is_terminal() {
        return None;
    }
    // Whichever of our streams is a terminal, it is the same one for all that we know.
    terminal_size::terminal_size().and_then(|(width, _)| usable(width.0))
}

fn usable(width: u16) -> Option<u16> {
    (width >= NARROWEST).then_some(width)
}

/// The table as text, with its headings in bold and a line break at its end.
pub fn render(headings: &[&str], name: &str, lines: &[Line], width: Option<u16>) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| names::width(heading)).collect();
    for line in lines {
        for (width, number) in widths.iter_mut().zip(&line.numbers) {
            *width = (*width).max(names::width(number));
        }
    }
    let used: usize = widths.iter().map(|width| width + GAP.len()).sum();
    let room = width.map(|width| usize::from(width).saturating_sub(used).max(NAME_NARROWEST));
    let bold = anstyle::Style::new().bold();
    let numbers = numbers(&widths, headings.iter().copied());
    let mut text = format!("{bold}{numbers}{name}{bold:#}\n");
    for line in lines {
        text.push_str(&self::numbers(&widths, line.numbers.iter().map(String::as_str)));
        text.push_str(&label(&printable(&line.name), &printable(&line.note), room));
        text.push('\n');
    }
    text
}

/// Where a line may be broken: not between a number and its unit.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let ends = rest.match_indices(' ').map(|(position, _)| position);
        let is_break = |position: &usize| {
            let (before, after) = rest.split_at(*position);
            let next = after.trim_start().split(' ').next().unwrap_or_default();
            let next = next.trim_end_matches([',', ';', ')', '.']);
            !(before.ends_with(|letter: char| letter.is_ascii_digit()) && UNITS.contains(&next))
        };
        let end = ends.clone().find(is_break).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    words
}

/// A text in lines of that width, each after the first under the first's text.
pub fn hanging(head: &str, text: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from) else { return format!("{head}{text}") };
    let indent = names::width(head);
    let mut all = head.to_owned();
    let mut used = indent;
    for (number, word) in words(text).into_iter().enumerate() {
        let columns = names::width(word);
        if number > 0 && used + 1 + columns > width {
            all.push('\n');
            all.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if number > 0 {
            all.push(' ');
            used += 1;
        }
        all.push_str(word);
        used += columns;
    }
    all
}

fn numbers<'a>(widths: &[usize], cells: impl Iterator<Item = &'a str>) -> String {
    widths.iter().zip(cells).map(|(width, cell)| format!("{cell:>width$}{GAP}")).collect()
}

/// The name, and the note if both fit.
fn label(name: &str, note: &str, room: Option<usize>) -> String {
    let name = room.map_or_else(|| name.to_owned(), |room| names::fit(name, room));
    let both = names::width(&name) + GAP.len() + names::width(note);
    if note.is_empty() || room.is_some_and(|room| both > room) {
        return name;
    }
    let dim = anstyle::Style::new().dimmed();
    format!("{name}{GAP}{dim}{note}{dim:#}")
}

/// A text without control characters: a name in somebody's file must not speak to the terminal.
pub fn printable(text: &str) -> String {
    let speaks = |letter: char| letter.is_control() || turns(letter);
    text.chars().map(|letter| if speaks(letter) { '\u{fffd}' } else { letter }).collect()
}

/// Whether it has a terminal write from the right to the left, numbers and all, or back
/// (Unicode's `Bidi_Control`).
fn turns(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(width: Option<u16>) -> String {
        let line = |number: &str, name: &str| Line {
            numbers: vec![number.to_owned(), "1.0 %".to_owned()],
            name: name.to_owned(),
            note: "Shop.dll".to_owned(),
        };
        let lines =
            [line("12 ms", "Shop.Run()"), line("3", "Shop.Very.Long.Namespace.Type.Load(int)")];
        let text = render(&["cpu", "cpu %"], "function", &lines, width);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn names_do_not_speak_to_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[31m\n\u{202e}b\u{2066}"),
            "a\u{fffd}[31m\u{fffd}\u{fffd}b\u{fffd}"
        );
        assert_eq!(printable("Prüfung<T>(שלום)"), "Prüfung<T>(שלום)");
    }

    #[test]
    fn long_lines_hang_under_their_beginning() {
        let text = "one two three four five";
        assert_eq!(hanging("wall  ", text, None), "wall  one two three four five");
        assert_eq!(
            hanging("wall  ", text, Some(16)),
            "wall  one two\n      three four\n      five"
        );
        assert_eq!(hanging("", "waits 1.5 s, then", Some(10)), "waits\n1.5 s,\nthen");
        assert_eq!(hanging("", "verylongword b", Some(4)), "verylongword\nb");
    }

    #[test]
    fn names_are_shortened_down_to_forty_columns() {
        for (columns, expected) in [
            (200, "Shop.Very.Long.Namespace.Type.Load(int)"),
            (59, "Shop.Very.Long.Namespace.Type.Load(int)\n"),
            (52, "Shop.Very.Long.Namespace.Type.Load(…)"),
            (40, "…Namespace.Type.Load(…)"),
            (39, "Load(int)  Shop.dll"),
        ] {
            let text = rendered(usable(columns));
            assert!(text.contains(expected), "{columns}: {text}");
        }
    }

    #[test]
    fn a_pipe_gets_everything_and_a_terminal_what_fits() {
        assert_eq!(
            rendered(None),
            "  cpu  cpu %  function\n\
             12 ms  1.0 %  Shop.Run()  Shop.dll\n    \
             3  1.0 %  Shop.Very.Long.Namespace.Type.Load(int)  Shop.dll\n"
        );
        assert_eq!(
            rendered(Some(40)),
            "  cpu  cpu %  function\n\
             12 ms  1.0 %  Shop.Run()  Shop.dll\n    \
             3  1.0 %  …Long.Namespace.Type.Load…\n"
                .replace("…Long.Namespace.Type.Load…", "…Namespace.Type.Load(…)")
        );
    }
}
