//! Positions in the tables of a profile; each table has its own type, so they can't be mixed.

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// The position as a `usize`, for slices.
            #[must_use]
            pub const fn get(self) -> usize {
                self.0 as usize
            }

            /// The position as stored.
            #[must_use]
            pub const fn raw(self) -> u32 {
                self.0
            }

            pub(crate) const fn new(position: u32) -> Self {
                Self(position)
            }
        }
    };
}

index!(
    /// A string of the string table.
    StringIndex
);
index!(
    /// A module: what pprof calls a mapping.
    ModuleIndex
);
index!(
    /// A function: a name with its file.
    FunctionIndex
);
index!(
    /// A frame: a place in a function, what pprof calls a location.
    FrameIndex
);
index!(
    /// A node of the stack tree; with its parents it is a whole stack.
    StackIndex
);

index!(
    /// A span.
    SpanIndex
);
index!(
    /// A set of labels.
    LabelsIndex
);

impl StringIndex {
    /// The empty string, always the table's first.
    pub const EMPTY: Self = Self(0);
}
