//! Columns that line up: wrapped to a terminal's width, plain and whole when piped.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Narrower than this no table makes sense, so it is left to the terminal to wrap.
const NARROWEST: u16 = 60;

/// A heading with the way its column is aligned.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// Numbers.
    Right(&'static str),
    /// Texts.
    Left(&'static str),
}

/// The width to wrap to; `None` if the output is not a terminal.
pub fn width(stream: &impl IsTerminal) -> Option<u16> {
    if !stream.is_terminal() {
        return None;
    }
    // Whichever of our streams is a terminal, it is the same one for all that we know.
    terminal_size::terminal_size().map(|(width, _)| width.0).filter(|width| *width >= NARROWEST)
}

/// The table as text, with its headings in bold and a line break at its end.
pub fn render(
    columns: &[Column],
    rows: impl IntoIterator<Item = Vec<String>>,
    width: Option<u16>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| match column {
        Column::Right(name) | Column::Left(name) => *name,
    }));
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for (position, column) in columns.iter().enumerate() {
        let Some(cells) = table.column_mut(position) else { continue };
        // Two spaces between columns, and none before the first.
        cells.set_padding((if position == 0 { 0 } else { 2 }, 0));
        if matches!(column, Column::Right(_)) {
            cells.set_cell_alignment(CellAlignment::Right);
        }
    }
    match width {
        Some(width) => {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    let mut text = String::new();
    for (number, line) in table.lines().enumerate() {
        let line = line.trim_end();
        let bold = anstyle::Style::new().bold();
        if number == 0 {
            text.push_str(&format!("{bold}{line}{bold:#}\n"));
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// A text without control characters: a name in somebody's file must not speak to the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
