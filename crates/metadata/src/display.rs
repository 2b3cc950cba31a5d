//! The display name of a method: metadata, manglings and spelling put together.

use model::limits::SIGNATURE_DEPTH_MAX;

use crate::attribute::has_state_machine;
use crate::mangling::{
    Compiler, CompilerMethod, CompilerType, compiler_method, compiler_type, holder_ordinal,
};
use crate::member::{Facts, Knowledge, Spelled, spelled};
use crate::metadata::{Metadata, Method, Token};
use crate::path::{TypePath, with_arguments};
use crate::signature::{MethodSignature, Type};
use crate::spelling::{Speller, TypeArg, generic_names};
use crate::text::{bounded, list, split_arity};

/// A method's name, whole and in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// What a frame is shown as: `Shop.Orders.LoadAsync(int)`, `lambda 0 in Shop.Orders.Run()`.
    pub full: String,
    /// The namespace of the outermost type; empty for the global one.
    pub namespace: String,
    /// The type in which the author wrote the method: `Outer<T>.Inner`.
    pub type_name: String,
    /// The member without its parameters: `LoadAsync`, `Size.get`, `lambda 0 in Run`.
    pub method: String,
    /// The parameter types: `int, string`. Of a lambda or local function, those of the method that
    /// it is in.
    pub parameters: String,
}

/// Names a method. `type_arguments` are those of its type (with the enclosing types' first),
/// `method_arguments` its own; where either is empty or [`TypeArg::Shared`], generic parameters are
/// shown by their own names. None if metadata has no such method.
#[must_use]
pub fn display(
    metadata: &dyn Metadata,
    method: Token,
    type_arguments: &[TypeArg],
    method_arguments: &[TypeArg],
) -> Option<MethodName> {
    let row = metadata.method(method)?;
    let mut origin = Origin {
        wrapping: Wrapping::None,
        member: row.name.clone(),
        path: TypePath::of(metadata, row.parent)
            .unwrap_or_else(|| TypePath { namespace: String::new(), segments: Vec::new() }),
        type_arguments: generic_names(metadata, row.parent, type_arguments),
        method_arguments: generic_names(metadata, method, method_arguments),
        state_machine: None,
        is_moved: false,
    };
    // `<<Run>b__0>d.MoveNext` takes two steps; no compiler nests deeper than a few.
    for _ in 0..SIGNATURE_DEPTH_MAX {
        if !origin.unfold() {
            break;
        }
    }
    Some(if origin.is_moved {
        origin.name_of_owner(metadata)
    } else {
        let arguments = std::mem::take(&mut origin.method_arguments);
        origin.name(metadata, Owner::Exact(method, row), &arguments)
    })
}

/// How code stands in the member that its author wrote.
enum Wrapping {
    None,
    Lambda(Ordinal),
    LocalFunction(String, Ordinal),
}

/// By which numbers the compiler tells apart what it moved out of a member. Within a member the
/// numbers follow the source; those of members change with every member before them, and are shown
/// only where nothing else says which of several members it is.
#[derive(Clone, Debug, Default)]
struct Ordinal {
    /// Of the member in its type; empty if unknown.
    member: String,
    /// Of the lambda or local function in the member.
    own: String,
}

impl Ordinal {
    /// By Roslyn: `3_0` in the one type of all that capture nothing, `0` in `<>c__DisplayClass3_1`.
    fn of_roslyn(ordinal: &str, holder: &str) -> Self {
        let (member, own) = ordinal.rsplit_once('_').unwrap_or_else(|| {
            let member = holder_ordinal(holder).and_then(|number| number.split_once('_'));
            (member.map_or("", |(member, _)| member), ordinal)
        });
        Self { member: member.to_owned(), own: own.to_owned() }
    }

    /// By mcs, which counts in each type that holds some.
    fn of_mcs(ordinal: &str, holder: &str) -> Self {
        let own = match holder_ordinal(holder) {
            Some(holder) if ordinal.is_empty() => holder.to_owned(),
            Some(holder) => format!("{holder}_{ordinal}"),
            None => ordinal.to_owned(),
        };
        Self { member: String::new(), own }
    }

    /// ` 3_0`, as in the compiler's own names.
    fn whole(&self) -> String {
        if self.member.is_empty() { self.short() } else { format!(" {}_{}", self.member, self.own) }
    }

    /// ` 0`.
    fn short(&self) -> String {
        if self.own.is_empty() { String::new() } else { format!(" {}", self.own) }
    }
}

impl Wrapping {
    /// The words before the member's name; more of them if it may be one of several.
    fn told(&self, is_exact: bool) -> String {
        match self {
            Self::None => String::new(),
            Self::Lambda(ordinal) if is_exact => format!("lambda{} in ", ordinal.short()),
            Self::Lambda(ordinal) => format!("lambda{} in ", ordinal.whole()),
            Self::LocalFunction(name, _) if is_exact => format!("local function {name} in "),
            Self::LocalFunction(name, ordinal) => {
                format!("local function {name}{} in ", ordinal.whole())
            }
        }
    }
}

/// Where code was written, as far as the compiler's names have been taken apart.
struct Origin {
    wrapping: Wrapping,
    /// The member's name in metadata.
    member: String,
    path: TypePath,
    type_arguments: Vec<String>,
    method_arguments: Vec<String>,
    /// The metadata name of the state machine that runs the member.
    state_machine: Option<String>,
    /// The compiler moved the code out of the member.
    is_moved: bool,
}

/// The member that code was written in.
enum Owner {
    Exact(Token, Method),
    Overloaded,
    NameOnly,
}

impl Origin {
    /// Takes one mangling apart; false if there is none.
    fn unfold(&mut self) -> bool {
        let member = std::mem::take(&mut self.member);
        let is_unfolded = match compiler_method(&member) {
            Some(CompilerMethod::Lambda { of, ordinal }) => self.unfold_lambda(of, ordinal),
            Some(CompilerMethod::LocalFunction { of, name, ordinal }) => {
                let ordinal = Ordinal::of_roslyn(ordinal, self.holder());
                self.wrapping = Wrapping::LocalFunction(name.to_owned(), ordinal);
                self.member = of.to_owned();
                self.leave_compiler_types();
                true
            }
            Some(CompilerMethod::Finally) => self.unfold_state_machine(),
            _ => member == "MoveNext" && self.unfold_state_machine(),
        };
        if is_unfolded {
            self.is_moved = true;
        } else {
            self.member = member;
        }
        is_unfolded
    }

    /// The name of the type that the code is in now.
    fn holder(&self) -> &str {
        self.path.segments.last().map_or("", |segment| segment.name())
    }

    fn unfold_lambda(&mut self, of: Option<&str>, ordinal: &str) -> bool {
        let number = match of {
            Some(_) => Ordinal::of_roslyn(ordinal, self.holder()),
            None => Ordinal::of_mcs(ordinal, self.holder()),
        };
        // mcs leaves the method's name to the closure or state machine that holds the lambda.
        let of = of.or_else(|| match self.path.segments.last()?.compiler_type()? {
            CompilerType::StateMachine { of, .. } | CompilerType::Closure { of: Some(of) } => {
                Some(of)
            }
            _ => None,
        });
        let Some(of) = of else { return false };
        // mcs writes a generic method's arity, too.
        self.member = split_arity(of).0.to_owned();
        self.wrapping = Wrapping::Lambda(number);
        self.leave_compiler_types();
        true
    }

    fn unfold_state_machine(&mut self) -> bool {
        let Some(segment) = self.path.segments.last() else { return false };
        let raw = segment.raw.clone();
        let Some(CompilerType::StateMachine { of, compiler }) = compiler_type(split_arity(&raw).0)
        else {
            return false;
        };
        if !self.leave_type() {
            return false;
        }
        match compiler {
            // A type's name can't have dots, so explicit implementations have dashes.
            Compiler::Roslyn => self.member = of.replace('-', "."),
            Compiler::Mcs => {
                self.member = of.to_owned();
                // mcs gives async lambdas the name of their method; that they stand in another
                // compiler-made type tells them from it.
                if self.leave_compiler_types() {
                    self.wrapping = Wrapping::Lambda(Ordinal::of_mcs("", split_arity(&raw).0));
                }
            }
        }
        self.state_machine = Some(raw);
        true
    }

    /// Goes to the enclosing type. The compiler gives the types it makes the generic parameters of
    /// the method, so those become the method's.
    fn leave_type(&mut self) -> bool {
        if self.path.segments.len() < 2 {
            return false;
        }
        let Some(segment) = self.path.segments.pop() else { return false };
        let kept = self.type_arguments.len().saturating_sub(segment.arity);
        let mut own = self.type_arguments.split_off(kept);
        own.append(&mut self.method_arguments);
        self.method_arguments = own;
        true
    }

    /// Goes to the innermost type that the author wrote; whether that is another one.
    fn leave_compiler_types(&mut self) -> bool {
        let mut has_left = false;
        while let Some(CompilerType::Closure { .. } | CompilerType::StateMachine { .. }) =
            self.path.segments.last().and_then(|segment| segment.compiler_type())
        {
            if !self.leave_type() {
                break;
            }
            has_left = true;
        }
        has_left
    }

    /// Finds the member that the code was written in, and names it.
    fn name_of_owner(mut self, metadata: &dyn Metadata) -> MethodName {
        let owner = self.owner(metadata);
        let mut arguments = std::mem::take(&mut self.method_arguments);
        let outer = match &owner {
            Owner::Exact(token, _) => Some(metadata.generic_params(*token).len()),
            Owner::Overloaded | Owner::NameOnly => None,
        };
        match (&self.wrapping, outer) {
            // A local function has its method's generic parameters before its own.
            (Wrapping::LocalFunction(name, ordinal), outer) => {
                let own = arguments.split_off(outer.unwrap_or_default().min(arguments.len()));
                let name = with_arguments(name.clone(), &own);
                self.wrapping = Wrapping::LocalFunction(name, ordinal.clone());
            }
            (Wrapping::None | Wrapping::Lambda(_), Some(outer)) => arguments.truncate(outer),
            (Wrapping::None | Wrapping::Lambda(_), None) => {}
        }
        self.name(metadata, owner, &arguments)
    }

    fn owner(&mut self, metadata: &dyn Metadata) -> Owner {
        let Some(segment) = self.path.segments.last() else { return Owner::NameOnly };
        // mcs gives lambdas in constructors the name of the type, which no other member can have.
        if self.member == segment.name() {
            self.member = ".ctor".to_owned();
        }
        let count = self.method_arguments.len();
        let mut candidates = metadata.methods_named(segment.token, &self.member);
        let arity = |&candidate: &Token| metadata.generic_params(candidate).len();
        let has_same = candidates.iter().any(|candidate| arity(candidate) == count);
        match self.wrapping {
            Wrapping::None | Wrapping::Lambda(_) if has_same => {
                candidates.retain(|c| arity(c) == count)
            }
            // Local functions add generic parameters, and lambdas in them have these too.
            _ => candidates.retain(|candidate| arity(candidate) <= count),
        }
        if let (true, Wrapping::None, Some(machine)) =
            (candidates.len() > 1, &self.wrapping, &self.state_machine)
        {
            let exact =
                candidates.iter().find(|&&method| has_state_machine(metadata, method, machine));
            if let Some(exact) = exact {
                candidates = vec![*exact];
            }
        }
        match candidates.as_slice() {
            [] => Owner::NameOnly,
            [only] => {
                metadata.method(*only).map_or(Owner::NameOnly, |row| Owner::Exact(*only, row))
            }
            _ => Owner::Overloaded,
        }
    }

    fn name(
        &self,
        metadata: &dyn Metadata,
        owner: Owner,
        method_arguments: &[String],
    ) -> MethodName {
        let knowledge = match owner {
            Owner::Exact(token, row) => {
                let speller = Speller::new(metadata, &self.type_arguments, method_arguments);
                Knowledge::Exact(facts(metadata, &speller, token, &row))
            }
            Owner::Overloaded => Knowledge::Overloaded,
            Owner::NameOnly => Knowledge::NameOnly,
        };
        let type_name = self.path.spelled(metadata, &self.type_arguments);
        let innermost = self
            .path
            .segments
            .last()
            .map(|segment| TypePath { namespace: String::new(), segments: vec![segment.clone()] });
        let bare = innermost.map_or_else(|| type_name.clone(), |path| path.spelled(metadata, &[]));
        let Spelled { name, call } = spelled(&self.member, &bare, method_arguments, &knowledge);
        let prefix = self.wrapping.told(matches!(knowledge, Knowledge::Exact(_)));
        let namespace = self.path.namespace.clone();
        let dot = if namespace.is_empty() { "" } else { "." };
        MethodName {
            full: bounded(format!("{prefix}{namespace}{dot}{type_name}.{name}{call}")),
            method: bounded(format!("{prefix}{name}")),
            parameters: match knowledge {
                Knowledge::Exact(facts) => list(facts.parameters),
                Knowledge::Overloaded | Knowledge::NameOnly => String::new(),
            },
            namespace: bounded(namespace),
            type_name: bounded(type_name),
        }
    }
}

fn facts(metadata: &dyn Metadata, speller: &Speller<'_>, token: Token, row: &Method) -> Facts {
    let signature = MethodSignature::decode(&row.signature);
    let is_init = signature.return_modifiers.iter().any(|&modifier| {
        TypePath::of(metadata, modifier).is_some_and(|path| {
            path.metadata_name() == "System.Runtime.CompilerServices.IsExternalInit"
        })
    });
    let parameters = speller.parameters(&signature, |index| {
        // The return value is parameter 0.
        let sequence = u32::try_from(index.saturating_add(1)).unwrap_or(u32::MAX);
        metadata.direction(token, sequence)
    });
    let return_type = match &signature.return_type {
        Type::ByRef(target) => format!("ref {}", speller.spell(target, 0)),
        other => speller.spell(other, 0),
    };
    Facts {
        parameters,
        return_type,
        is_static: row.is_static,
        is_special_name: row.is_special_name,
        is_init,
    }
}
