//! Methods without metadata: `DynamicMethod`s and compiled expression trees, and the stubs that
//! the runtime writes in IL to cross into native code and back.

use crate::display::MethodName;
use crate::metadata::{Direction, Metadata, Method, Token, TypeDef, TypeRef};
use crate::signature::MethodSignature;
use crate::spelling::Speller;
use crate::text::{bounded, list};

const STUB_PREFIX: &str = "IL_STUB";

/// Names a dynamic method by what the runtime knows of it: its own name, and its signature.
///
/// `[dynamic] MyLambda(int)`; primitive types and arrays of them are spelled, all others are `…`
/// since such signatures hold pointers into the runtime instead of tokens. Of the IL stubs, whose
/// names begin with `IL_STUB`, the kind is shown: `[stub] PInvoke(int)`, `[stub] IL_STUB()`.
#[must_use]
pub fn dynamic_name(name: &str, signature: &[u8]) -> MethodName {
    let (kind, name) = match name.strip_prefix(STUB_PREFIX) {
        Some("") => ("stub", name),
        Some(rest) => ("stub", rest.trim_start_matches('_')),
        None => ("dynamic", name),
    };
    let signature = MethodSignature::decode(signature);
    let speller = Speller::new(&NoMetadata, &[], &[]);
    let parameters = list(speller.parameters(&signature, |_| Direction::Ref));
    let method = bounded(format!("[{kind}] {name}"));
    MethodName {
        full: bounded(format!("{method}({parameters})")),
        namespace: String::new(),
        type_name: String::new(),
        method,
        parameters,
    }
}

struct NoMetadata;

impl Metadata for NoMetadata {
    fn type_def(&self, _: Token) -> Option<TypeDef> {
        None
    }
    fn type_ref(&self, _: Token) -> Option<TypeRef> {
        None
    }
    fn type_spec(&self, _: Token) -> Option<Vec<u8>> {
        None
    }
    fn method(&self, _: Token) -> Option<Method> {
        None
    }
    fn generic_params(&self, _: Token) -> Vec<String> {
        Vec::new()
    }
    fn methods_named(&self, _: Token, _: &str) -> Vec<Token> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, signature: &[u8], expected: &str) {
        assert_eq!(dynamic_name(name, signature).full, expected);
    }

    #[test]
    fn dynamic_methods() {
        check("MyLambda", &[0x00, 0x02, 0x0a, 0x08, 0x1d, 0x08], "[dynamic] MyLambda(int, int[])");
        check("Plain", &[0x00, 0x00, 0x01], "[dynamic] Plain()");
        let mut closure = vec![0x00, 0x02, 0x0a, 0x21];
        closure.extend_from_slice(&0x7f00_1234_5678_usize.to_le_bytes());
        closure.push(0x08);
        check("lambda_method1", &closure, "[dynamic] lambda_method1(…, int)");
        // List<int>, a generic type by its handle.
        let mut list = vec![0x00, 0x01, 0x01, 0x15, 0x21];
        list.extend_from_slice(&0x7f00_1234_5678_usize.to_le_bytes());
        list.extend_from_slice(&[0x01, 0x08]);
        check("OfList", &list, "[dynamic] OfList(…<int>)");
        check("NoSignature", &[], "[dynamic] NoSignature(…)");
        check("", &[0x00, 0x00, 0x01], "[dynamic] ()");
    }

    #[test]
    fn stubs() {
        check("IL_STUB_PInvoke", &[0x00, 0x01, 0x08, 0x0f, 0x05], "[stub] PInvoke(byte*)");
        check("IL_STUB_ReversePInvoke", &[0x00, 0x00, 0x01], "[stub] ReversePInvoke()");
        check("IL_STUB_MulticastDelegate_Invoke", &[0, 0, 1], "[stub] MulticastDelegate_Invoke()");
        check("IL_STUB", &[0x00, 0x00, 0x01], "[stub] IL_STUB()");
    }
}
