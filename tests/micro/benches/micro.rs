//! `cargo bench -p micro`: times of all parts.
#![allow(missing_docs, reason = "criterion's macros make functions without")]

use criterion::{Criterion, criterion_group, criterion_main};

fn all(criterion: &mut Criterion) {
    for case in micro::CASES {
        let mut operation = (case.make)();
        (0..case.warm_up).for_each(|_| operation());
        criterion.bench_function(case.name, |bencher| bencher.iter(&mut operation));
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
