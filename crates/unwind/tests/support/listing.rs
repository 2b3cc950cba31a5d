//! RyuJIT's own listing of the methods that it compiles (`DOTNET_JitDisasm`), with their bytes.

/// One compiled method.
#[derive(Debug, Default)]
pub struct Listed {
    pub name: String,
    /// An on-stack-replacement version.
    pub replacing: bool,
    /// A version that such a one may replace.
    pub unoptimised: bool,
    /// The listing says that `rbp` is the frame pointer.
    pub framed: bool,
    pub code: Vec<u8>,
    /// Offsets at which instructions begin, except those inside padding.
    pub starts: Vec<usize>,
    /// Groups of instructions behind the first that begin like a prologue.
    pub funclets: usize,
    /// The listing is all there: threads that compile at the same time mix up theirs.
    whole: bool,
    mixed: bool,
    group: Option<usize>,
    locked: bool,
}

/// All methods whose listing is whole, and how many are not.
pub fn parse(text: &str) -> (Vec<Listed>, usize) {
    let mut methods: Vec<Listed> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("; Assembly listing for method ") {
            let name = rest.split(" (").next().unwrap_or(rest).to_owned();
            methods.push(Listed { name, ..Listed::default() });
        } else if let Some(method) = methods.last_mut() {
            method.line(line);
        }
    }
    let all = methods.len();
    methods.retain(|method| method.whole);
    let mixed = all - methods.len();
    (methods, mixed)
}

impl Listed {
    fn line(&mut self, line: &str) {
        if line.starts_with("; Tier1-OSR code") {
            self.replacing = true;
        } else if line.starts_with("; ") && line.contains("Tier0 code") {
            self.unoptimised = true;
        } else if line.starts_with("; rbp based frame") {
            self.framed = true;
        } else if let Some(bytes) = line.strip_prefix("; Total bytes of code ") {
            let complete = bytes.trim().parse() == Ok(self.code.len());
            self.whole = complete && !self.mixed && !self.whole;
        } else if line.starts_with("G_M") {
            let offset = line.split("offset=0x").nth(1).map(str::trim);
            let offset = offset.and_then(|offset| usize::from_str_radix(offset, 16).ok());
            self.mixed |= offset != Some(self.code.len());
            self.group = Some(self.code.len());
        } else if let Some(rest) = line.strip_prefix("       ") {
            self.instruction(rest);
        }
    }

    fn instruction(&mut self, line: &str) {
        let (bytes, text) = line.split_once(' ').unwrap_or((line, ""));
        let text = text.trim();
        let hex = bytes.as_bytes().chunks(2).map(|pair| {
            let pair = str::from_utf8(pair).ok()?;
            (pair.len() == 2).then_some(())?;
            u8::from_str_radix(pair, 16).ok()
        });
        // A line without bytes is a remark.
        let Some(bytes) = hex.collect::<Option<Vec<u8>>>() else { return };
        if bytes.is_empty() {
            return;
        }
        let prologue = text.starts_with("push") || text.starts_with("sub      rsp,");
        if self.group == Some(self.code.len()) && self.group != Some(0) && prologue {
            self.funclets += 1;
        }
        // The listing shows a prefix on a line of its own, and padding as one instruction.
        if !self.locked && !text.starts_with("align") {
            self.starts.push(self.code.len());
        }
        self.locked = text == "lock";
        self.code.extend(bytes);
    }
}
