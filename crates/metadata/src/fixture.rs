//! Metadata for tests, from a text that a reader of assemblies wrote: one row a line.
//!
//! ```text
//! typeref 01000013 - System.Object
//! typedef 02000005 02000004 Nested
//! typespec 1b000001 1d08
//! method 06000001 02000005 sn 000001 get_Size
//! generics 02000005 T,U
//! attribute 06000001 System.Runtime.CompilerServices.AsyncStateMachineAttribute 0100…
//! direction 06000001 1 out
//! ```

use std::collections::HashMap;

use crate::metadata::{Direction, Metadata, Method, Token, TypeDef, TypeRef};

#[derive(Default)]
pub(crate) struct Fixture {
    type_defs: HashMap<Token, TypeDef>,
    type_refs: HashMap<Token, TypeRef>,
    type_specs: HashMap<Token, Vec<u8>>,
    pub(crate) methods: HashMap<Token, Method>,
    generics: HashMap<Token, Vec<String>>,
    attributes: HashMap<(Token, String), Vec<u8>>,
    directions: HashMap<(Token, u32), Direction>,
}

impl Fixture {
    pub(crate) fn parse(text: &str) -> Self {
        let mut fixture = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(6, ' ').collect();
            let at = |index: usize| *words.get(index).unwrap_or_else(|| panic!("{line}"));
            let rest = |index: usize| line.splitn(index + 1, ' ').last().unwrap().to_owned();
            let token = self::token(at(1)).unwrap();
            match at(0) {
                "typedef" => {
                    let row = TypeDef { name: rest(3), enclosing: self::token(at(2)) };
                    fixture.type_defs.insert(token, row);
                }
                "typeref" => {
                    let row = TypeRef { name: rest(3), scope: self::token(at(2)) };
                    fixture.type_refs.insert(token, row);
                }
                "typespec" => {
                    fixture.type_specs.insert(token, hex(at(2)));
                }
                "method" => {
                    let row = Method {
                        name: rest(5),
                        parent: self::token(at(2)).unwrap(),
                        signature: hex(at(4)),
                        is_static: at(3).starts_with('s'),
                        is_special_name: at(3).ends_with('n'),
                    };
                    fixture.methods.insert(token, row);
                }
                "generics" => {
                    fixture.generics.insert(token, rest(2).split(',').map(str::to_owned).collect());
                }
                "attribute" => {
                    fixture.attributes.insert((token, at(2).to_owned()), hex(at(3)));
                }
                "direction" => {
                    let direction = match at(3) {
                        "in" => Direction::In,
                        "out" => Direction::Out,
                        _ => Direction::Ref,
                    };
                    fixture.directions.insert((token, at(2).parse().unwrap()), direction);
                }
                _ => panic!("{line}"),
            }
        }
        fixture
    }

    /// The same module for a caller that reads no custom attributes and no parameter rows.
    pub(crate) fn without_extras(mut self) -> Self {
        self.attributes.clear();
        self.directions.clear();
        self
    }

    /// The method `name` of the type whose bare name is `type_name`; the first of overloads.
    pub(crate) fn find(&self, type_name: &str, name: &str) -> Token {
        let named = |token: &Token| {
            let full = &self.type_defs.get(token).unwrap().name;
            full == type_name || full.strip_suffix(type_name).is_some_and(|ns| ns.ends_with('.'))
        };
        let found = self.methods.iter().filter(|(_, m)| m.name == name && named(&m.parent));
        *found.map(|(token, _)| token).min().unwrap_or_else(|| panic!("{type_name}.{name}"))
    }
}

fn token(word: &str) -> Option<Token> {
    (word != "-").then(|| Token(u32::from_str_radix(word, 16).unwrap()))
}

fn hex(word: &str) -> Vec<u8> {
    let digits = word.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

impl Metadata for Fixture {
    fn type_def(&self, token: Token) -> Option<TypeDef> {
        self.type_defs.get(&token).cloned()
    }
    fn type_ref(&self, token: Token) -> Option<TypeRef> {
        self.type_refs.get(&token).cloned()
    }
    fn type_spec(&self, token: Token) -> Option<Vec<u8>> {
        self.type_specs.get(&token).cloned()
    }
    fn method(&self, token: Token) -> Option<Method> {
        self.methods.get(&token).cloned()
    }
    fn generic_params(&self, owner: Token) -> Vec<String> {
        self.generics.get(&owner).cloned().unwrap_or_default()
    }
    fn methods_named(&self, type_def: Token, name: &str) -> Vec<Token> {
        let methods = self.methods.iter();
        let mut tokens: Vec<Token> = methods
            .filter(|(_, method)| method.parent == type_def && method.name == name)
            .map(|(token, _)| *token)
            .collect();
        tokens.sort();
        tokens
    }
    fn attribute(&self, owner: Token, name: &str) -> Option<Vec<u8>> {
        self.attributes.get(&(owner, name.to_owned())).cloned()
    }
    fn direction(&self, method: Token, sequence: u32) -> Direction {
        self.directions.get(&(method, sequence)).copied().unwrap_or_default()
    }
}
