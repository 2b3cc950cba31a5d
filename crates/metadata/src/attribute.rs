//! The one thing read from custom attributes: the type that a `[AsyncStateMachine(typeof(…))]`
//! or `[IteratorStateMachine(typeof(…))]` names.

use crate::blob::Blob;
use crate::metadata::{Metadata, Token};

const STATE_MACHINE_ATTRIBUTES: [&str; 3] = [
    "System.Runtime.CompilerServices.AsyncStateMachineAttribute",
    "System.Runtime.CompilerServices.IteratorStateMachineAttribute",
    "System.Runtime.CompilerServices.AsyncIteratorStateMachineAttribute",
];

/// Whether an attribute of the method says that its state machine is the nested type with this
/// metadata name.
pub(crate) fn has_state_machine(metadata: &dyn Metadata, method: Token, type_name: &str) -> bool {
    STATE_MACHINE_ATTRIBUTES
        .iter()
        .filter_map(|attribute| metadata.attribute(method, attribute))
        .any(|value| nested_name(&value).is_some_and(|name| name == type_name))
}

/// The bare name of the nested type that is the attribute's only argument. It is written as
/// `Namespace.Outer+Nested, Assembly`, the assembly left out where it is the same, with a backslash
/// before special characters of a name.
fn nested_name(value: &[u8]) -> Option<String> {
    const PROLOG: [u8; 2] = [0x01, 0x00];
    let mut blob = Blob::new(value);
    if blob.bytes(2)? != PROLOG {
        return None;
    }
    let length = usize::try_from(blob.compressed()?).ok()?;
    let text = std::str::from_utf8(blob.bytes(length)?).ok()?;
    let mut name = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.extend(characters.next()),
            '+' => name.clear(),
            ',' => break,
            _ => name.push(character),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(type_name: &str, expected: Option<&str>) {
        let mut value = vec![0x01, 0x00, u8::try_from(type_name.len()).unwrap()];
        value.extend_from_slice(type_name.as_bytes());
        value.extend_from_slice(&[0, 0]);
        assert_eq!(nested_name(&value).as_deref(), expected);
    }

    #[test]
    fn names_of_nested_types() {
        check("Program+<<Main>$>d__0", Some("<<Main>$>d__0"));
        check("Ns.Box`1+<Load>d__0, App, Version=1.0.0.0", Some("<Load>d__0"));
        check(r"Ns.Map+<I<K\,V>-Get>d__1", Some("<I<K,V>-Get>d__1"));
    }

    #[test]
    fn damaged_values_name_nothing() {
        assert_eq!(nested_name(&[]), None);
        assert_eq!(nested_name(&[1, 0]), None);
        assert_eq!(nested_name(&[1, 0, 0xff]), None);
        assert_eq!(nested_name(&[1, 0, 5, b'a']), None);
        assert_eq!(nested_name(&[1, 0, 1, 0xfe]), None);
        assert_eq!(nested_name(&[2, 0, 1, b'a']), None);
    }
}
