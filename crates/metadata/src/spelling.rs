//! Types as C# spells them: `int?`, `(int, string)`, `Dictionary<TKey, TValue>.Enumerator`.

use std::cell::Cell;

use model::limits::{FUNCTION_NAME_BYTES_MAX, SIGNATURE_DEPTH_MAX};

use crate::mangling::property_of_parameter;
use crate::metadata::{Direction, Metadata, Token, TypeTable};
use crate::path::{TypePath, with_arguments};
use crate::signature::{Convention, MethodSignature, Type};
use crate::text::{UNKNOWN, bounded, list};

/// A generic argument, as the runtime tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeArg {
    /// `System.__Canon`: the code is shared by all reference types, so the argument is shown by the
    /// name of the generic parameter.
    Shared,
    /// A type, by its display name.
    Known(String),
}

impl TypeArg {
    /// The array type of this rank over the argument. Arrays are references themselves, so an array
    /// of the unknown is no better known.
    #[must_use]
    pub fn array(self, rank: u32) -> Self {
        match self {
            Self::Shared => Self::Shared,
            // The runtime says 1 of vectors too, and nobody writes the other kind in C#.
            Self::Known(element) if rank == 1 => Self::Known(array_of(&element, "[]")),
            Self::Known(element) => Self::Known(array_of(&element, &dimensions(rank))),
        }
    }
}

/// The generic argument for a type that the runtime names by its TypeDef token and arguments:
/// `int` for `System.Int32`, `KeyValuePair<TKey, int>` where the key is shared.
#[must_use]
pub fn type_argument(metadata: &dyn Metadata, type_def: Token, arguments: &[TypeArg]) -> TypeArg {
    let Some(path) = TypePath::of(metadata, type_def) else {
        return TypeArg::Known(UNKNOWN.to_owned());
    };
    if path.metadata_name() == "System.__Canon" {
        return TypeArg::Shared;
    }
    let arguments = generic_names(metadata, type_def, arguments);
    TypeArg::Known(path_name(metadata, &path, &arguments))
}

/// What stands for each generic parameter of `owner`: the argument, or the parameter's own name.
pub(crate) fn generic_names(
    metadata: &dyn Metadata,
    owner: Token,
    arguments: &[TypeArg],
) -> Vec<String> {
    let mut arguments = arguments.iter();
    let mut names: Vec<String> = metadata
        .generic_params(owner)
        .into_iter()
        .map(|name| match arguments.next() {
            Some(TypeArg::Known(argument)) => bounded(argument.clone()),
            Some(TypeArg::Shared) | None => match property_of_parameter(&name) {
                Some(property) => property.to_owned(),
                None => bounded(name),
            },
        })
        .collect();
    // Metadata that lost its parameters' names still has arguments.
    names.extend(arguments.map(|argument| match argument {
        TypeArg::Known(argument) => bounded(argument.clone()),
        TypeArg::Shared => UNKNOWN.to_owned(),
    }));
    names
}

/// A type's name with its arguments.
fn path_name(metadata: &dyn Metadata, path: &TypePath, arguments: &[String]) -> String {
    let name = path.metadata_name();
    if let Some(keyword) = keyword(&name) {
        return keyword.to_owned();
    }
    if let ("System.Nullable`1", [value]) = (name.as_str(), arguments) {
        return format!("{value}?");
    }
    if name.starts_with("System.ValueTuple`") && arguments.len() > 1 {
        return tuple(arguments);
    }
    bounded(path.spelled(metadata, arguments))
}

/// The C# keyword of a type that has one.
pub(crate) fn keyword(full_name: &str) -> Option<&'static str> {
    Some(match full_name.strip_prefix("System.")? {
        "Boolean" => "bool",
        "Byte" => "byte",
        "SByte" => "sbyte",
        "Char" => "char",
        "Int16" => "short",
        "UInt16" => "ushort",
        "Int32" => "int",
        "UInt32" => "uint",
        "Int64" => "long",
        "UInt64" => "ulong",
        "IntPtr" => "nint",
        "UIntPtr" => "nuint",
        "Single" => "float",
        "Double" => "double",
        "Decimal" => "decimal",
        "String" => "string",
        "Object" => "object",
        "Void" => "void",
        _ => return None,
    })
}

/// `(int, string)`. The eighth argument of a tuple is itself a tuple of what didn't fit.
fn tuple(arguments: &[String]) -> String {
    let mut parts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [.., last] = parts.as_mut_slice()
        && arguments.len() == 8
    {
        let rest = last.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let single = last.strip_prefix("ValueTuple<").and_then(|rest| rest.strip_suffix('>'));
        *last = rest.or(single).unwrap_or(last);
    }
    format!("({})", list(parts))
}

/// The array of `element`: in C# the outermost dimensions stand first, so `int[,]` in an array is
/// `int[][,]`.
fn array_of(element: &str, dimensions: &str) -> String {
    let mut at = element.len();
    while let Some(open) = element.get(..at).and_then(|left| left.strip_suffix(']')) {
        let inner = open.trim_end_matches([',', '*']);
        if !inner.ends_with('[') {
            break;
        }
        at = inner.len().saturating_sub(1);
    }
    let (base, rest) = element.split_at_checked(at).unwrap_or((element, ""));
    bounded(format!("{base}{dimensions}{rest}"))
}

/// `[]`, `[,]`; an array of rank 1 that isn't a vector is `[*]`, as the runtime writes it.
fn dimensions(rank: u32) -> String {
    // More than 32 dimensions the runtime doesn't load.
    const RANK_MAX: u32 = 32;
    match rank {
        0 => format!("[{UNKNOWN}]"),
        1 => "[*]".to_owned(),
        _ => format!("[{}]", ",".repeat(rank.min(RANK_MAX).saturating_sub(1) as usize)),
    }
}

/// Spells the types of one signature in its generic context.
pub(crate) struct Speller<'a> {
    metadata: &'a dyn Metadata,
    type_arguments: &'a [String],
    method_arguments: &'a [String],
    /// Types that may still be looked at. Type specifications can refer to each other, so that a
    /// small blob describes an immense type; a name has room for no more than this many.
    budget: Cell<usize>,
}

impl<'a> Speller<'a> {
    pub(crate) fn new(
        metadata: &'a dyn Metadata,
        type_arguments: &'a [String],
        method_arguments: &'a [String],
    ) -> Self {
        let budget = Cell::new(FUNCTION_NAME_BYTES_MAX);
        Self { metadata, type_arguments, method_arguments, budget }
    }

    /// The parameters of a signature; `direction` tells what each by-reference one is for.
    pub(crate) fn parameters(
        &self,
        signature: &MethodSignature,
        direction: impl Fn(usize) -> Direction,
    ) -> Vec<String> {
        let taken = signature.parameters.iter().enumerate();
        let mut names: Vec<String> = taken
            .take_while(|_| self.budget.get() > 0)
            .map(|(index, parameter)| match parameter {
                Type::ByRef(inner) => {
                    let word = match direction(index) {
                        Direction::Ref => "ref",
                        Direction::In => "in",
                        Direction::Out => "out",
                    };
                    format!("{word} {}", self.spell(inner, 0))
                }
                _ => self.spell(parameter, 0),
            })
            .collect();
        if !signature.is_complete {
            names.push(UNKNOWN.to_owned());
        } else if signature.convention == Convention::VarArgs {
            names.push("__arglist".to_owned());
        }
        names
    }

    /// One type.
    pub(crate) fn spell(&self, ty: &Type, depth: usize) -> String {
        let left = self.budget.get();
        if left == 0 || depth >= SIGNATURE_DEPTH_MAX {
            return UNKNOWN.to_owned();
        }
        self.budget.set(left.saturating_sub(1));
        let deeper = depth.saturating_add(1);
        let text = match ty {
            Type::Primitive(keyword) => (*keyword).to_owned(),
            Type::Named(token) => self.named(*token, &[], deeper),
            Type::Generic { definition, arguments } => self.named(*definition, arguments, deeper),
            Type::TypeParameter(index) => parameter(self.type_arguments, *index, "!"),
            Type::MethodParameter(index) => parameter(self.method_arguments, *index, "!!"),
            Type::Vector(element) => array_of(&self.spell(element, deeper), "[]"),
            Type::Array(element, rank) => {
                array_of(&self.spell(element, deeper), &dimensions(*rank))
            }
            Type::Pointer(target) => format!("{}*", self.spell(target, deeper)),
            Type::ByRef(target) => format!("ref {}", self.spell(target, deeper)),
            Type::Function(signature) => self.function(signature, deeper),
            Type::Internal | Type::Unknown => UNKNOWN.to_owned(),
        };
        bounded(text)
    }

    fn named(&self, token: Token, arguments: &[Type], depth: usize) -> String {
        if token.table() == TypeTable::Specification {
            let Some(blob) = self.metadata.type_spec(token) else { return UNKNOWN.to_owned() };
            return self.spell(&Type::decode(&blob), depth);
        }
        let arguments: Vec<String> =
            arguments.iter().map(|argument| self.spell(argument, depth)).collect();
        match TypePath::of(self.metadata, token) {
            Some(path) => path_name(self.metadata, &path, &arguments),
            None => with_arguments(UNKNOWN.to_owned(), &arguments),
        }
    }

    fn function(&self, signature: &MethodSignature, depth: usize) -> String {
        let mut types: Vec<String> =
            signature.parameters.iter().map(|parameter| self.spell(parameter, depth)).collect();
        types.push(self.spell(&signature.return_type, depth));
        let convention = match signature.convention {
            Convention::Managed | Convention::VarArgs => String::new(),
            Convention::Unmanaged("") => " unmanaged".to_owned(),
            Convention::Unmanaged(name) => format!(" unmanaged[{name}]"),
        };
        format!("delegate*{convention}<{}>", list(types))
    }
}

/// A generic parameter's text; metadata that has none is shown as IL would write it.
fn parameter(names: &[String], index: u32, sigil: &str) -> String {
    let name = usize::try_from(index).ok().and_then(|index| names.get(index));
    name.map_or_else(|| format!("{sigil}{index}"), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_arrays_read_from_the_outside() {
        assert_eq!(array_of("int", "[]"), "int[]");
        assert_eq!(array_of("int[]", "[]"), "int[][]");
        assert_eq!(array_of("string[]", "[,]"), "string[,][]");
        assert_eq!(array_of("int[,][]", "[]"), "int[][,][]");
        assert_eq!(array_of("List<int[]>", "[]"), "List<int[]>[]");
        assert_eq!(array_of("]", "[]"), "][]");
        assert_eq!(array_of("", "[]"), "[]");
    }

    #[test]
    fn long_tuples_are_flat() {
        let arguments = |last: &str| -> Vec<String> {
            ["a", "b", "c", "d", "e", "f", "g", last].map(str::to_owned).into()
        };
        assert_eq!(tuple(&arguments("(h, i)")), "(a, b, c, d, e, f, g, h, i)");
        assert_eq!(tuple(&arguments("ValueTuple<h>")), "(a, b, c, d, e, f, g, h)");
        assert_eq!(tuple(&arguments("Rest")), "(a, b, c, d, e, f, g, Rest)");
    }

    #[test]
    fn array_arguments() {
        let known = |text: &str| TypeArg::Known(text.to_owned());
        assert_eq!(known("int").array(1), known("int[]"));
        assert_eq!(known("int").array(2), known("int[,]"));
        assert_eq!(known("int").array(u32::MAX), known(&format!("int[{}]", ",".repeat(31))));
        assert_eq!(TypeArg::Shared.array(1), TypeArg::Shared);
    }
}
