//! Members as C# spells them: accessors, operators, explicit implementations, finalizers.

use crate::mangling::{CompilerMethod, compiler_method};
use crate::spelling::keyword;
use crate::text::{UNKNOWN, list, split_qualified};

/// What a member's spelling depends on, where its row in metadata is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) parameters: Vec<String>,
    pub(crate) return_type: String,
    pub(crate) is_static: bool,
    pub(crate) is_special_name: bool,
    /// The setter is an `init` accessor.
    pub(crate) is_init: bool,
}

/// How much is known of the member that a name means.
#[derive(Clone, Debug)]
pub(crate) enum Knowledge {
    /// It is this one.
    Exact(Facts),
    /// It is one of several overloads.
    Overloaded,
    /// No method has the name: mcs names lambdas after fields too.
    NameOnly,
}

/// A spelled member: `Add<T>` and `(T)`, or `Size.get` and nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    pub(crate) name: String,
    pub(crate) call: String,
}

/// Spells a member, given its name in metadata and its type's bare name.
pub(crate) fn spelled(
    name: &str,
    type_name: &str,
    generics: &[String],
    knowledge: &Knowledge,
) -> Spelled {
    let call = match knowledge {
        Knowledge::Exact(facts) => format!("({})", list(&facts.parameters)),
        Knowledge::Overloaded => format!("({UNKNOWN})"),
        Knowledge::NameOnly => String::new(),
    };
    if is_finalizer(name, knowledge) {
        return Spelled { name: format!("~{type_name}"), call };
    }
    let (interface, local) = split_qualified(name);
    let interface = if interface.is_empty() {
        String::new()
    } else {
        format!("{}.", without_namespaces(interface))
    };
    if let Some(accessor) = accessor(local, knowledge) {
        return Spelled { name: format!("{interface}{accessor}"), call: String::new() };
    }
    let local = match compiler_method(local) {
        Some(CompilerMethod::EntryPoint) => "Main".to_owned(),
        Some(CompilerMethod::Clone) => "Clone".to_owned(),
        _ => operator(local, knowledge).unwrap_or_else(|| local.to_owned()),
    };
    let generics =
        if generics.is_empty() { String::new() } else { format!("<{}>", list(generics)) };
    Spelled { name: format!("{interface}{local}{generics}"), call }
}

fn is_finalizer(name: &str, knowledge: &Knowledge) -> bool {
    match knowledge {
        Knowledge::Exact(facts) => {
            name == "Finalize"
                && !facts.is_static
                && facts.parameters.is_empty()
                && facts.return_type == "void"
        }
        _ => false,
    }
}

/// `Size.get`, `this[int].set`, `Changed.add`, if the method is an accessor.
fn accessor(name: &str, knowledge: &Knowledge) -> Option<String> {
    let (kind, property) = name.split_once('_')?;
    if property.is_empty() || !matches!(kind, "get" | "set" | "add" | "remove") {
        return None;
    }
    let Knowledge::Exact(facts) = knowledge else { return Some(format!("{property}.{kind}")) };
    if !facts.is_special_name {
        return None;
    }
    let indices = match kind {
        "get" => facts.parameters.as_slice(),
        "set" => facts.parameters.split_last().map_or(&[][..], |(_value, indices)| indices),
        _ => &[],
    };
    let kind = if facts.is_init { "init" } else { kind };
    if indices.is_empty() {
        Some(format!("{property}.{kind}"))
    } else {
        // Only an indexer has parameters in C#, whatever IndexerName calls it.
        Some(format!("this[{}].{kind}", list(indices)))
    }
}

/// `operator +`, `implicit operator int`.
fn operator(name: &str, knowledge: &Knowledge) -> Option<String> {
    let name = name.strip_prefix("op_")?;
    let (kind, checked) = match name {
        "Implicit" => ("implicit", ""),
        "Explicit" => ("explicit", ""),
        "CheckedExplicit" => ("explicit", "checked "),
        _ => return symbol(name),
    };
    let target = match knowledge {
        Knowledge::Exact(facts) => facts.return_type.as_str(),
        _ => "",
    };
    Some(format!("{kind} operator {checked}{target}").trim_end().to_owned())
}

fn symbol(name: &str) -> Option<String> {
    let (checked, name) = match name.strip_prefix("Checked") {
        Some(name) => ("checked ", name),
        None => ("", name),
    };
    let symbol = match name {
        "Addition" | "UnaryPlus" => "+",
        "Subtraction" | "UnaryNegation" => "-",
        "Multiply" => "*",
        "Division" => "/",
        "Modulus" => "%",
        "Increment" => "++",
        "Decrement" => "--",
        "LogicalNot" => "!",
        "OnesComplement" => "~",
        "BitwiseAnd" => "&",
        "BitwiseOr" => "|",
        "ExclusiveOr" => "^",
        "LeftShift" => "<<",
        "RightShift" => ">>",
        "UnsignedRightShift" => ">>>",
        "Equality" => "==",
        "Inequality" => "!=",
        "LessThan" => "<",
        "LessThanOrEqual" => "<=",
        "GreaterThan" => ">",
        "GreaterThanOrEqual" => ">=",
        "True" => "true",
        "False" => "false",
        _ => return None,
    };
    Some(format!("operator {checked}{symbol}"))
}

/// Type names in source form, without their namespaces: `Ns.List<System.Int32>` is `List<int>`.
/// Which of the names before the last dot are types can't be told, so a nested interface loses its
/// outer type.
fn without_namespaces(types: &str) -> String {
    let mut short = String::new();
    let mut name = String::new();
    let flush = |name: &mut String, short: &mut String| {
        let bare = name.rsplit_once('.').map_or(name.as_str(), |(_namespace, bare)| bare);
        short.push_str(keyword(name).unwrap_or(bare));
        name.clear();
    };
    for character in types.chars() {
        match character {
            '<' | '>' | ',' | '[' | ']' | '*' | '?' | '(' | ')' | ' ' => {
                flush(&mut name, &mut short);
                short.push(character);
                if character == ',' {
                    short.push(' ');
                }
            }
            // After a closed bracket the dot leads to a nested type.
            '.' if name.is_empty() => short.push('.'),
            _ => name.push(character),
        }
    }
    flush(&mut name, &mut short);
    short.replace(",  ", ", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, facts: &Facts, expected: &str) {
        let spelled = spelled(name, "Thing", &[], &Knowledge::Exact(facts.clone()));
        assert_eq!(format!("{}{}", spelled.name, spelled.call), expected, "{name}");
    }

    fn facts(parameters: &[&str], return_type: &str) -> Facts {
        Facts {
            parameters: parameters.iter().map(|&parameter| parameter.to_owned()).collect(),
            return_type: return_type.to_owned(),
            is_special_name: true,
            ..Facts::default()
        }
    }

    #[test]
    fn accessors() {
        check("get_Size", &facts(&[], "int"), "Size.get");
        check("set_Size", &facts(&["int"], "void"), "Size.set");
        check("set_Id", &Facts { is_init: true, ..facts(&["int"], "void") }, "Id.init");
        check("get_Item", &facts(&["int"], "int"), "this[int].get");
        check("set_Entry", &facts(&["string", "int", "int"], "void"), "this[string, int].set");
        check("get_Item", &facts(&[], "int"), "Item.get");
        check("add_Changed", &facts(&["Action"], "void"), "Changed.add");
        check("remove_Changed", &facts(&["Action"], "void"), "Changed.remove");
        check("Ns.IWorker.get_Progress", &facts(&[], "int"), "IWorker.Progress.get");
        check("Ns.IWorker.get_Item", &facts(&["int"], "int"), "IWorker.this[int].get");
        check("get_", &facts(&[], "int"), "get_()");
        let plain = Facts { is_special_name: false, ..facts(&[], "void") };
        check("get_away", &plain, "get_away()");
    }

    #[test]
    fn operators() {
        let two = facts(&["Money", "Money"], "Money");
        check("op_Addition", &two, "operator +(Money, Money)");
        check("op_CheckedSubtraction", &two, "operator checked -(Money, Money)");
        check("op_UnsignedRightShift", &two, "operator >>>(Money, Money)");
        let one = facts(&["Money"], "decimal");
        check("op_Implicit", &one, "implicit operator decimal(Money)");
        check("op_Explicit", &one, "explicit operator decimal(Money)");
        check("op_CheckedExplicit", &one, "explicit operator checked decimal(Money)");
        check("Ns.IUnit<Ns.Meters>.op_Addition", &two, "IUnit<Meters>.operator +(Money, Money)");
        check("op_Unheard", &one, "op_Unheard(Money)");
    }

    #[test]
    fn constructors_and_finalizers() {
        check(".ctor", &facts(&["int"], "void"), ".ctor(int)");
        check(".cctor", &facts(&[], "void"), ".cctor()");
        check("Finalize", &facts(&[], "void"), "~Thing()");
        check("Finalize", &facts(&["int"], "void"), "Finalize(int)");
        check("Finalize", &Facts { is_static: true, ..facts(&[], "void") }, "Finalize()");
    }

    #[test]
    fn explicit_implementations() {
        let none = Facts { is_special_name: false, ..facts(&[], "void") };
        check("System.IDisposable.Dispose", &none, "IDisposable.Dispose()");
        check(
            "Corprof.Names.IHandler<System.Collections.Generic.List<System.Int32[]>>.Handle",
            &none,
            "IHandler<List<int[]>>.Handle()",
        );
        check("Ns.IMap<System.String,Ns.B>.Get", &none, "IMap<string, B>.Get()");
        check("Ns.IMap<System.String, Ns.B>.Get", &none, "IMap<string, B>.Get()");
        check("Ns.Outer<T>.IInner<U>.Get", &none, "Outer<T>.IInner<U>.Get()");
        check("IEnumerator<int>.Reset", &none, "IEnumerator<int>.Reset()");
    }

    #[test]
    fn synthesised_members() {
        check("<Clone>$", &facts(&[], "Thing"), "Clone()");
        check("<Main>$", &facts(&["string[]"], "void"), "Main(string[])");
        check("<Main>", &facts(&["string[]"], "void"), "Main(string[])");
        check("<>iFixedSetters", &facts(&[], "void"), "<>iFixedSetters()");
    }
}
