//! Where a type stands: its namespace and the types it is nested in.

use model::limits::SIGNATURE_DEPTH_MAX;

use crate::mangling::{CompilerType, compiler_type, property_of_parameter};
use crate::member::{Knowledge, spelled};
use crate::metadata::{Metadata, Token, TypeTable};
use crate::text::{UNKNOWN, list, split_arity, split_qualified};

/// A type, from its outermost enclosing type inwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypePath {
    pub(crate) namespace: String,
    pub(crate) segments: Vec<Segment>,
}

/// One type of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) token: Token,
    /// The name in metadata, without namespace and with its arity.
    pub(crate) raw: String,
    /// Generic parameters of its own, not counting those of enclosing types.
    pub(crate) arity: usize,
}

impl Segment {
    fn new(token: Token, raw: &str) -> Self {
        Self { token, arity: split_arity(raw).1, raw: raw.to_owned() }
    }

    /// The name in metadata without its arity.
    pub(crate) fn name(&self) -> &str {
        split_arity(&self.raw).0
    }

    /// What the compiler made it for, if it did.
    pub(crate) fn compiler_type(&self) -> Option<CompilerType<'_>> {
        compiler_type(self.name())
    }
}

impl TypePath {
    /// The path of a TypeDef or TypeRef token; none where metadata has no such row.
    pub(crate) fn of(metadata: &dyn Metadata, token: Token) -> Option<Self> {
        let mut segments = Vec::new();
        let mut at = Some(token);
        let mut namespace = String::new();
        while let Some(token) = at {
            // Only broken metadata nests so deep, or in a circle.
            if segments.len() >= SIGNATURE_DEPTH_MAX {
                break;
            }
            let (name, outer) = match token.table() {
                TypeTable::Definition => metadata.type_def(token).map(|t| (t.name, t.enclosing)),
                TypeTable::Reference => metadata.type_ref(token).map(|t| (t.name, t.scope)),
                TypeTable::Specification | TypeTable::None => None,
            }?;
            if outer.is_some() {
                segments.push(Segment::new(token, &name));
            } else {
                let (left, bare) = split_qualified(&name);
                namespace = left.to_owned();
                segments.push(Segment::new(token, bare));
            }
            at = outer;
        }
        segments.reverse();
        Some(Self { namespace, segments })
    }

    /// The name with namespace and arities as metadata writes it, to recognise known types by.
    /// Nested types are joined by `+`.
    pub(crate) fn metadata_name(&self) -> String {
        let names: Vec<&str> = self.segments.iter().map(|segment| segment.raw.as_str()).collect();
        let joined = names.join("+");
        if self.namespace.is_empty() { joined } else { format!("{}.{joined}", self.namespace) }
    }

    /// `Outer<T>.Inner<U>`, without namespace.
    pub(crate) fn spelled(&self, metadata: &dyn Metadata, arguments: &[String]) -> String {
        let mut rest = arguments;
        let mut parts = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            // Generic parameters that no name accounts for (obfuscated code) go to the innermost.
            let is_last = index.saturating_add(1) == self.segments.len();
            let count = if is_last { rest.len() } else { segment.arity.min(rest.len()) };
            let (own, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = others;
            parts.push(spelled_segment(metadata, segment, own));
        }
        if parts.is_empty() { UNKNOWN.to_owned() } else { parts.join(".") }
    }
}

fn spelled_segment(metadata: &dyn Metadata, segment: &Segment, arguments: &[String]) -> String {
    let name = match segment.compiler_type() {
        None => segment.name().to_owned(),
        Some(CompilerType::Renamed(name)) => name.to_owned(),
        Some(CompilerType::StateMachine { of, .. }) => {
            // A type's name can't have dots, so explicit implementations have dashes.
            spelled(&innermost(of).replace('-', "."), "", &[], &Knowledge::NameOnly).name
        }
        Some(CompilerType::Closure { .. }) => "closure".to_owned(),
        Some(CompilerType::FixedBuffer(name)) => format!("{name} buffer"),
        Some(CompilerType::Anonymous) => return anonymous(&metadata.generic_params(segment.token)),
    };
    with_arguments(name, arguments)
}

/// `Name<int, string>`, or the bare name without arguments.
pub(crate) fn with_arguments(name: String, arguments: &[String]) -> String {
    if arguments.is_empty() { name } else { format!("{name}<{}>", list(arguments)) }
}

/// The method whose name is within: `Run` of `<<Run>b__0>d`.
fn innermost(mut name: &str) -> &str {
    while let Some(inner) = name.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        name = inner.0;
    }
    name
}

/// `anonymous type { Id, Name }` by the compiler's names of its generic parameters.
fn anonymous(parameters: &[String]) -> String {
    let names: Vec<&str> =
        parameters.iter().filter_map(|parameter| property_of_parameter(parameter)).collect();
    if names.is_empty() {
        "anonymous type".to_owned()
    } else {
        format!("anonymous type {{ {} }}", list(names))
    }
}
