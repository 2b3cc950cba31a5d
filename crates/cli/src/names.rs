//! Long names in a narrow place: what tells functions apart is kept, the rest becomes `…`.

/// What is left out.
const CUT: &str = "…";

/// How many columns a text takes. Wide letters are counted as one, so a name with them may be cut
/// by the terminal instead of by us.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// The name in at most that many columns: first without parameters, then without generic
/// arguments, then without the beginning of the namespace, and at last cut at its end. A source
/// line behind it stays.
pub fn fit(name: &str, columns: usize) -> String {
    if width(name) <= columns {
        return name.to_owned();
    }
    if let Some((function, line)) = name.rsplit_once(' ').filter(|(_, last)| is_line(last))
        && let Some(rest) = columns.checked_sub(width(line) + 2)
    {
        return format!("{} {line}", fit(function, rest + 1));
    }
    let name = emptied(name, '(', ')');
    if width(&name) <= columns {
        return name;
    }
    let name = emptied(&name, '<', '>');
    if width(&name) <= columns {
        return name;
    }
    let name = without_namespace(&name, columns);
    if width(&name) <= columns {
        return name;
    }
    let kept: String = name.chars().take(columns.saturating_sub(1)).collect();
    kept + CUT
}

/// Whether it is `file:line`.
fn is_line(word: &str) -> bool {
    let number = word.rsplit_once(':').map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text with `…` for all that stands in brackets.
fn emptied(text: &str, open: char, close: char) -> String {
    let mut result = String::new();
    let mut depth = 0_usize;
    let mut inside = false;
    for letter in text.chars() {
        if letter == close && depth > 0 {
            depth -= 1;
            if depth == 0 && inside {
                result.push_str(CUT);
            }
        }
        if depth == 0 {
            result.push(letter);
        } else {
            inside = true;
        }
        if letter == open {
            depth += 1;
            inside = depth > 1;
        }
    }
    result
}

/// The name without as much of its namespace as is too much; the type and the method stay.
fn without_namespace(name: &str, columns: usize) -> String {
    // `lambda 0 in A.B.C(…)`: the words before stay.
    let start = name.rfind(' ').map_or(0, |space| space + 1);
    let (words, path) = name.split_at(start);
    // Of C++ and Rust the separator is `::`: the second colon counts.
    let is_separator = |letters: &[u8]| matches!(letters, [_, b'.'] | [b':', b':']);
    let pairs = path.as_bytes().windows(2).enumerate();
    let dots: Vec<usize> = pairs.filter(|(_, p)| is_separator(p)).map(|(at, _)| at + 1).collect();
    // The last dot is between type and method, unless the method is `.ctor`, which brings one.
    let method = if path.contains("..") { 2 } else { 1 };
    let droppable = dots.len().saturating_sub(method);
    let shortened = |dot: &usize| format!("{words}{CUT}{}", path.split_at(*dot + 1).1);
    let mut names = dots.iter().take(droppable).map(shortened).peekable();
    let mut best = name.to_owned();
    while width(&best) > columns {
        match names.next() {
            Some(shorter) => best = shorter,
            None => break,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_functions_apart_is_kept() {
        let name = "Shop.Api.Orders.Store<TKey, List<int>>.Load(string, List<int>)";
        for (columns, expected) in [
            (80, name),
            (60, "Shop.Api.Orders.Store<TKey, List<int>>.Load(…)"),
            (40, "Shop.Api.Orders.Store<…>.Load(…)"),
            (31, "…Api.Orders.Store<…>.Load(…)"),
            (20, "…Store<…>.Load(…)"),
            (10, "…Store<…>…"),
        ] {
            let fitted = fit(name, columns);
            assert_eq!(fitted, expected, "{columns}");
            assert!(width(&fitted) <= columns);
        }
        for (name, columns, expected) in [
            ("lambda 2 in Shop.Api.Program.Main(string[])", 31, "lambda 2 in …Program.Main(…)"),
            ("Shop.Api.Binder..ctor(int)", 20, "…Api.Binder..ctor(…)"),
            ("Shop.Api.Binder..ctor(int)", 16, "…Binder..ctor(…)"),
            ("Shop.Name.get", 12, "…Name.get"),
            ("shop::api::Store<int>::load(int)", 23, "…api::Store<…>::load(…)"),
            ("shop::api::Store<int>::load(int)", 20, "…Store<…>::load(…)"),
            ("[libcoreclr.so]", 8, "[libcor…"),
            ("Shop.Api.Orders.Load(int) Orders.cs:12", 36, "Shop.Api.Orders.Load(…) Orders.cs:12"),
            ("Shop.Api.Orders.Load(int) Orders.cs:12", 28, "…Orders.Load(…) Orders.cs:12"),
            ("shop::load(int) shop.cc:8", 20, "shop::loa… shop.cc:8"),
            ("A.Run()", 6, "A.Run…"),
            ("unbalanced(<", 8, "unbalan…"),
            ("größe_der_straße", 6, "größe…"),
        ] {
            assert_eq!(fit(name, columns), expected, "{name}");
        }
    }
}
