//! The document's tables: each stands between two comments, and is made of what was measured.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::report::{self, Table};
use super::results::Results;

const END: &str = "<!-- end of table -->";

/// Has a document's tables, and the plots beside its numbers, be those of what was measured.
pub fn write(document: &Path, folder: &Path, results: &Results) -> Result<()> {
    let text = fs::read_to_string(document).with_context(|| format!("{}", document.display()))?;
    let text = with_tables(&text, &report::tables(results))
        .with_context(|| format!("{}", document.display()))?;
    fs::write(document, text)?;
    plots(folder, results)
}

/// Writes all plots of what was measured into a folder.
pub fn plots(folder: &Path, results: &Results) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, svg) in report::plots(results) {
        fs::write(folder.join(format!("{name}.svg")), svg)?;
    }
    Ok(())
}

/// The text with these tables in the places that have their names.
fn with_tables(text: &str, tables: &[Table]) -> Result<String> {
    let mut text = text.to_owned();
    for Table { name, text: table } in tables {
        let begin = format!("<!-- table: {name} -->\n");
        let start = text.find(&begin).with_context(|| format!("there is no {}", begin.trim()))?;
        let start = start + begin.len();
        let length = text[start..].find(END).with_context(|| format!("{name} has no {END}"))?;
        text.replace_range(start..start + length, &format!("\n{table}\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::{DOCUMENT, FILE, NUMBERS};
    use super::*;
    use crate::workspace;

    fn table(text: &str) -> Table {
        Table { name: "start", text: text.to_owned() }
    }

    #[test]
    fn a_table_takes_its_place() {
        let before =
            "a\n<!-- table: start -->\nold\n<!-- end of table -->\nb <!-- end of table -->";
        let after = with_tables(before, &[table("| new |\n")]).unwrap();
        assert_eq!(
            after,
            "a\n<!-- table: start -->\n\n| new |\n\n<!-- end of table -->\nb <!-- end of table -->"
        );
        assert_eq!(with_tables(&after, &[table("| new |\n")]).unwrap(), after);
        for (text, why) in [("a", "no <!-- table: start -->"), ("<!-- table: start -->\n", "end")] {
            let error = with_tables(text, &[table("")]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_document_has_what_was_measured() {
        let root = workspace::root();
        let results = Results::load(&root.join(NUMBERS).join(FILE)).unwrap();
        if std::env::var_os("CORPROF_WRITE_DOCS").is_some() {
            write(&root.join(DOCUMENT), &root.join(NUMBERS), &results).unwrap();
        }
        let text = fs::read_to_string(root.join(DOCUMENT)).unwrap();
        let tables = report::tables(&results);
        assert_eq!(tables.len(), text.matches(END).count(), "tables in the document");
        let same = with_tables(&text, &tables).unwrap() == text;
        assert!(same, "{DOCUMENT} is of other numbers; write it with CORPROF_WRITE_DOCS=1");
        for (name, svg) in report::plots(&results) {
            let path = root.join(NUMBERS).join(format!("{name}.svg"));
            assert!(
                fs::read_to_string(&path).unwrap() == svg,
                "{} is of other numbers",
                path.display()
            );
        }
    }
}
