//! The Roslyn workload: many generated classes that keep a C# compiler busy for seconds.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::layout::{self, Layout};

/// Enough that compiling them runs a second or more past the compiler's own start-up.
pub const CLASSES: u32 = 1_500;

/// Writes the source file, unless it is there.
pub(crate) fn generated_classes(layout: &Layout, classes: u32) -> Result<Vec<PathBuf>> {
    let dir = layout.root().join("workload");
    let path = dir.join(format!("classes-{classes}.cs"));
    let source = source(classes);
    if fs::read_to_string(&path).is_ok_and(|present| present == source) {
        return Ok(vec![path]);
    }
    fs::create_dir_all(&dir)?;
    let new = dir.join(format!("classes-{classes}.{}", layout::unique()));
    fs::write(&new, source)?;
    fs::rename(&new, &path)?;
    Ok(vec![path])
}

/// The constructs are chosen for the work that they make: queries, lambdas, anonymous types, async
/// state machines, pattern switches, generics and records.
fn source(classes: u32) -> String {
    let mut text = String::from(
        "using System;\nusing System.Collections.Generic;\nusing System.Linq;\n\
         using System.Threading.Tasks;\n\nnamespace Corprof.Generated;\n",
    );
    for n in 0..classes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}", CLASS.replace("$N", &n.to_string()));
    }
    text.push_str("\nstatic class Program { static void Main() => Console.WriteLine(1); }\n");
    text
}

const CLASS: &str = r#"
public record Row$N(int Amount, string Group, List<int> Details);

public class Report$N<T> where T : class
{
    readonly Dictionary<string, T> known = new();

    public T? Find(string key) => known.TryGetValue(key, out var value) ? value : null;

    public async Task<int> Total(IEnumerable<Row$N> rows)
    {
        var groups =
            from row in rows
            where row.Amount > $N
            group row by row.Group into g
            orderby g.Key
            select new { g.Key, Sum = g.Sum(r => r.Amount) + g.SelectMany(r => r.Details).Count() };
        int total = 0;
        foreach (var item in groups)
        {
            total += item.Sum switch { < 0 => 1, > 10 and < 20 => 2, _ => item.Key.Length };
            await Task.Yield();
        }
        return total;
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_names_of_its_own() {
        let text = source(3);
        for name in ["class Report0<T>", "class Report2<T>", "record Row1("] {
            assert_eq!(text.matches(name).count(), 1, "{name}");
        }
        assert!(!text.contains("$N"));
    }
}
