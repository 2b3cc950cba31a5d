//! Bytes and answers that no compiler makes: everything ends, nothing panics, names stay short.

use model::limits::FUNCTION_NAME_BYTES_MAX;

use testing::Random;

use crate::fixture::Fixture;
use crate::metadata::{Direction, Metadata, Method, Token, TypeDef, TypeRef};
use crate::{MethodSignature, Type, TypeArg, display, dynamic_name, type_argument};

/// Bytes that often are what a signature may hold, so that they get past the first one.
fn blob(random: &mut Random) -> Vec<u8> {
    const LIKELY: [u8; 22] = [
        0x00, 0x01, 0x02, 0x05, 0x08, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x1b, 0x1d,
        0x1e, 0x1f, 0x20, 0x21, 0x41, 0x45, 0x49,
    ];
    let length = random.index(64);
    (0..length)
        .map(|_| match random.index(4) {
            0 => u8::try_from(random.index(256)).unwrap(),
            _ => LIKELY[random.index(LIKELY.len())],
        })
        .collect()
}

/// Pieces of manglings in any order.
fn name(random: &mut Random) -> String {
    const PIECES: [&str; 36] = [
        "<",
        ">",
        "<>",
        "<>c",
        "c__",
        "DisplayClass",
        "0",
        "_",
        "b__",
        "g__",
        "|",
        "d",
        "d__",
        "MoveNext",
        "Run",
        ".",
        "`",
        "`1",
        "-",
        "é",
        ".ctor",
        "get_",
        "op_Addition",
        "System",
        "F",
        "AnonStorey",
        "async",
        "m__",
        "Finally",
        "$",
        "Main",
        "Clone",
        "f__AnonymousType",
        "z__",
        "op_Implicit",
        "Nullable`1",
    ];
    let count = random.index(9);
    (0..count).map(|_| PIECES[random.index(PIECES.len())]).collect()
}

fn check_name(full: &str) {
    assert!(full.len() <= FUNCTION_NAME_BYTES_MAX, "{} bytes", full.len());
}

#[test]
fn random_blobs() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..50_000 {
        let blob = blob(&mut random);
        let signature = MethodSignature::decode(&blob);
        assert!(signature.parameters.len() <= blob.len());
        assert!(format!("{:?}", Type::decode(&blob)).len() < 100_000);
        check_name(&dynamic_name(&name(&mut random), &blob).full);
    }
}

/// A module that answers at random, though the same to the same question.
struct Chaos(u64);

impl Chaos {
    fn random(&self, token: Token) -> Random {
        Random((self.0 ^ u64::from(token.0)).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    fn type_token(random: &mut Random) -> Token {
        let table = [0x0100_0000, 0x0200_0000, 0x1b00_0000][random.index(3)];
        Token(table | u32::try_from(1 + random.index(8)).unwrap())
    }
}

impl Metadata for Chaos {
    fn type_def(&self, token: Token) -> Option<TypeDef> {
        let mut random = self.random(token);
        let enclosing = (random.index(3) > 0).then(|| Self::type_token(&mut random));
        (random.index(20) > 0).then(|| TypeDef { name: name(&mut random), enclosing })
    }
    fn type_ref(&self, token: Token) -> Option<TypeRef> {
        self.type_def(token).map(|row| TypeRef { name: row.name, scope: row.enclosing })
    }
    fn type_spec(&self, token: Token) -> Option<Vec<u8>> {
        Some(blob(&mut self.random(token)))
    }
    fn method(&self, token: Token) -> Option<Method> {
        let mut random = self.random(token);
        Some(Method {
            name: name(&mut random),
            parent: Self::type_token(&mut random),
            signature: blob(&mut random),
            is_static: random.index(2) == 0,
            is_special_name: random.index(2) == 0,
        })
    }
    fn generic_params(&self, owner: Token) -> Vec<String> {
        let mut random = self.random(owner);
        (0..random.index(4)).map(|_| name(&mut random)).collect()
    }
    fn methods_named(&self, type_def: Token, _: &str) -> Vec<Token> {
        let count = self.random(type_def).below(4);
        (0..count).map(|row| Token(0x0600_0000 | u32::try_from(row).unwrap())).collect()
    }
    fn attribute(&self, owner: Token, _: &str) -> Option<Vec<u8>> {
        Some(blob(&mut self.random(owner)))
    }
    fn direction(&self, _: Token, sequence: u32) -> Direction {
        [Direction::Ref, Direction::In, Direction::Out][(sequence % 3) as usize]
    }
}

#[test]
fn random_metadata() {
    let mut random = Random(0xdead_beef_cafe_f00d);
    for seed in 0..20_000 {
        let chaos = Chaos(seed);
        let arguments: Vec<TypeArg> = (0..random.index(4))
            .map(|_| match random.index(3) {
                0 => TypeArg::Shared,
                _ => TypeArg::Known(name(&mut random))
                    .array(u32::try_from(random.number() >> 40).unwrap()),
            })
            .collect();
        let name = display(&chaos, Token(0x0600_0001), &arguments, &arguments).unwrap();
        check_name(&name.full);
        check_name(&name.type_name);
        check_name(&name.parameters);
        if let TypeArg::Known(name) = type_argument(&chaos, Token(0x0200_0001), &arguments) {
            check_name(&name);
        }
    }
}

/// Cuts and flips of signatures that compilers wrote.
#[test]
fn damaged_signatures() {
    let text = include_str!("../testdata/mcs.txt");
    let module = Fixture::parse(text);
    let mut random = Random(1);
    for row in module.methods.values() {
        for end in 0..=row.signature.len() {
            let mut blob = row.signature[..end].to_vec();
            assert!(MethodSignature::decode(&blob).parameters.len() <= end);
            if !blob.is_empty() {
                let at = random.index(blob.len());
                blob[at] ^= 1 << random.index(8);
                check_name(&dynamic_name("Cut", &blob).full);
            }
        }
    }
}

/// A small module whose types refer to each other, so that written out they would fill the disk.
struct Fractal;

impl Metadata for Fractal {
    fn type_def(&self, token: Token) -> Option<TypeDef> {
        Some(TypeDef { name: "A".repeat(100_000), enclosing: Some(token) })
    }
    fn type_ref(&self, _: Token) -> Option<TypeRef> {
        Some(TypeRef { name: "List`1".to_owned(), scope: None })
    }
    fn type_spec(&self, _: Token) -> Option<Vec<u8>> {
        // List<self, self, … 100 times>.
        let mut blob = vec![0x15, 0x12, 0x05, 100];
        blob.extend([0x12, 0x06].repeat(100));
        Some(blob)
    }
    fn method(&self, _: Token) -> Option<Method> {
        let mut signature = vec![0x20, 0x80, 200, 0x12, 0x06];
        signature.extend([0x12, 0x06].repeat(200));
        Some(Method {
            name: "<>".repeat(100_000),
            parent: Token(0x0200_0001),
            signature,
            is_static: false,
            is_special_name: true,
        })
    }
    fn generic_params(&self, _: Token) -> Vec<String> {
        vec!["T".repeat(100_000)]
    }
    fn methods_named(&self, _: Token, _: &str) -> Vec<Token> {
        vec![Token(0x0600_0001); 10_000]
    }
}

#[test]
fn work_is_bounded() {
    let name = display(&Fractal, Token(0x0600_0001), &[], &[]).unwrap();
    check_name(&name.full);
    check_name(&name.parameters);
    assert!(name.parameters.starts_with("List<List<List<"), "{}", name.parameters);
}
