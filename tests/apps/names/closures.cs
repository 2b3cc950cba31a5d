// Lambdas, local functions, async methods and iterators: what the compiler moves into types and
// methods of its own.

#pragma warning disable CS0649, CS0659, CS0660, CS0661 // never assigned; Equals without GetHashCode

namespace Corprof.TestApps.Names;

static class Lambdas
{
    public static void Run()
    {
        Case("lambda"); Plain();
        Case("static lambda"); Static();
        Case("capturing lambda"); Capturing(1);
        Case("lambda that captures this"); new Owner(0).CapturesThis();
        Case("lambda in a lambda"); Nested(1);
        Case("anonymous method"); Anonymous();
        Case("LINQ query lambda"); Query([1]);
        Case("lambda in an overloaded method"); Overloaded(1);
        Case("lambda in a constructor"); new Owner(1);
        Case("lambda in a field initialiser"); new WithLambda().Field();
        Case("object initialiser's lambda in a field initialiser"); new WithLambda().Options.Handler();
        Case("lambda in a static field initialiser"); WithLambda.Static();
        Case("static lambda in a static field initialiser"); WithLambda.StaticLambda();
        Case("lambda in a property"); Total += new Owner(0).Property;
        Case("lambda in an operator"); _ = new Owner(0) + 1;
        Case("lambda in an explicit implementation"); ((IWorker)new Owner(0)).Work();
        Case("lambda with an attribute and a natural type"); Natural();
        Case("lambda in a finally"); InFinally();
        Case("lambda as a thread's start"); var thread = new Thread(() => Total += Burn(Ms)); thread.Start(); thread.Join();
        Case("lambda in Parallel.For"); Parallel.For(0, 1, _ => Total += Burn(Ms));
        Case("lambda in a static constructor"); _ = LambdaEarly.Value;
        Case("lambda in a default interface method"); ((ILambda)new Owner(0)).Default();
    }

    static void Plain() { Action f = () => Total += Burn(Ms); f(); }
    static void Static() { Action<int> f = static x => Total += Burn(Ms) + x; f(1); }
    static void Capturing(int x) { Action f = () => Total += Burn(Ms) + x; f(); }
    static void Nested(int x)
    {
        Action outer = () => { int y = x; Action inner = () => Total += Burn(Ms) + x + y; inner(); };
        outer();
    }
    static void Anonymous() { Action f = delegate { Total += Burn(Ms); }; f(); }
    static void Query(int[] values) => Total += (from v in values where v > 0 select Burn(Ms) + v).Sum();
    static void Overloaded(int x) { Action f = () => Total += Burn(Ms) + x; f(); }
    static void Overloaded(string x) { Action f = () => Total += Burn(Ms) + x.Length; f(); }
    static void Natural() { var f = [MethodImpl(No)] (int x = 1) => { Total += Burn(Ms) + x; }; f(); }
    static void InFinally() { try { Total++; } finally { Action f = () => Total += Burn(Ms); f(); } }
}

interface ILambda { void Default() { Action f = () => Total += Burn(Ms); f(); } }

class Owner : IWorker, ILambda
{
    readonly int offset;
    public Owner(int value)
    {
        offset = value;
        Action f = () => Total += Burn(Ms) + value;
        if (value > 0) f();
    }
    public void CapturesThis() { Action f = () => Total += Burn(Ms) + offset; f(); }
    public long Property { get { Func<long> f = () => Total += Burn(Ms); return f(); } }
    public static Owner operator +(Owner a, int b) { Action f = () => Total += Burn(Ms) + b; f(); return a; }
    void IWorker.Work() { Action f = () => Total += Burn(Ms); f(); }
    int IWorker.Progress => 1;
    int IWorker.this[int index] => 1;
    event Action IWorker.Done { add { } remove { } }
}

class Options { public Action Handler = null!; }

class WithLambda
{
    public Action Field = () => Total += Burn(Ms);
    public Options Options = new() { Handler = () => Total += Burn(Ms) };
    public static Action Static = () => Total += Burn(Ms);
    public static readonly Action StaticLambda = static () => Total += Burn(Ms);
}

class LambdaEarly { public static readonly int Value; static LambdaEarly() { Action f = () => Total += Burn(Ms); f(); } }

static class LocalFunctions
{
    public static void Run()
    {
        Case("local function"); Plain();
        Case("static local function"); Static();
        Case("capturing local function"); Capturing(1);
        Case("local function used as a delegate"); AsDelegate(1);
        Case("generic local function"); Generic();
        Case("generic local function of a generic method"); GenericInGeneric(1);
        Case("local function of a generic type"); new LocalBox<int>().Run(1);
        Case("local function in a lambda"); InLambda();
        Case("lambda in a local function"); LambdaIn();
        Case("lambda in a generic local function"); LambdaInGeneric();
        Case("local function in a local function"); Nested(1);
        Case("async local function"); Async().Wait();
        Case("iterator local function"); Iterator();
        Case("local function in a property"); Total += Property;
        Case("local function in a constructor"); new LocalOwner(1);
        Case("local function in an overloaded method"); Overloaded(1);
    }

    static void Plain() { Helper(); [MethodImpl(No)] void Helper() => Total += Burn(Ms); }
    static void Static() { Helper(1); [MethodImpl(No)] static void Helper(int x) => Total += Burn(Ms) + x; }
    static void Capturing(int x) { Helper(); [MethodImpl(No)] void Helper() => Total += Burn(Ms) + x; }
    static void AsDelegate(int x) { Action f = Helper; f(); void Helper() => Total += Burn(Ms) + x; }
    static void Generic() { Helper(1); [MethodImpl(No)] static void Helper<T>(T value) => Total += Burn(Ms); }
    static void GenericInGeneric<T>(T value)
    {
        Helper(value, 2L);
        [MethodImpl(No)] static void Helper<U>(T first, U second) => Total += Burn(Ms);
    }
    static void InLambda()
    {
        Action f = () => { Helper(); [MethodImpl(No)] static void Helper() => Total += Burn(Ms); };
        f();
    }
    static void LambdaIn() { Helper(); static void Helper() { Action f = () => Total += Burn(Ms); f(); } }
    static void LambdaInGeneric()
    {
        Helper(1);
        static void Helper<T>(T value) { Action<T> f = _ => Total += Burn(Ms); f(value); }
    }
    static void Nested(int x)
    {
        Outer();
        void Outer() { Inner(); [MethodImpl(No)] void Inner() => Total += Burn(Ms) + x; }
    }
    static async Task Async() { await Helper(); static async Task Helper() { await Task.Yield(); Total += Burn(Ms); } }
    static void Iterator() { foreach (int i in Helper()) Total += i; static IEnumerable<int> Helper() { Total += Burn(Ms); yield return 1; } }
    static long Property { get { return Helper(); [MethodImpl(No)] static long Helper() => Total += Burn(Ms); } }
    static void Overloaded(int x) { Helper(); [MethodImpl(No)] static void Helper() => Total += Burn(Ms); }
    static void Overloaded(string x) { Helper(); [MethodImpl(No)] static void Helper() => Total += Burn(Ms); }
}

class LocalBox<T> { public void Run(T value) { Helper(value); [MethodImpl(No)] static void Helper(T value) => Total += Burn(Ms); } }
class LocalOwner { public LocalOwner(int x) { Helper(); [MethodImpl(No)] static void Helper() => Total += Burn(Ms); } }

static class Asynchronous
{
    public static async Task Run()
    {
        Case("async Task method before an await"); await Before(1);
        Case("async Task method after an await"); await After(1, "x");
        Case("async Task<T> method"); Total += await Result(1);
        Case("async ValueTask method"); await Value(1);
        Case("async void method"); using (var done = new ManualResetEventSlim()) { Void(done); done.Wait(); }
        Case("async generic method over a value"); await Generic(1);
        Case("async generic method over a reference"); await Generic("x");
        Case("async method of a generic type"); await new AsyncBox<int>().Load(1);
        Case("async method of a struct"); await new AsyncStruct().Load();
        Case("async overloaded method"); await Overloaded(1);
        Case("async overloaded method, the other one"); await Overloaded("x");
        Case("async lambda"); await Lambda();
        Case("async capturing lambda"); await Capturing(1);
        Case("async anonymous method"); await Anonymous();
        Case("lambda in an async method"); await LambdaIn(1);
        Case("async explicit implementation"); await ((ILoader)new Loader()).LoadAsync(1);
        Case("async method's finally"); await Finally();
        Case("async method with a pooled builder"); await Pooled();
        Case("await using"); await Using();
        Case("custom awaiter"); await new Awaitable();
        Case("continuation lambda"); await Task.CompletedTask.ContinueWith(_ => Total += Burn(Ms), TaskScheduler.Default);
    }

    static async Task Before(int x) { Total += Burn(Ms) + x; await Task.Yield(); }
    static async Task After(int x, string y) { await Task.Yield(); Total += Burn(Ms) + x + y.Length; }
    static async Task<int> Result(int x) { await Task.Yield(); Total += Burn(Ms); return x; }
    static async ValueTask Value(int x) { await Task.Yield(); Total += Burn(Ms) + x; }
    static async void Void(ManualResetEventSlim done) { await Task.Yield(); Total += Burn(Ms); done.Set(); }
    static async Task Generic<T>(T x) { await Task.Yield(); Total += Burn(Ms); GC.KeepAlive(x); }
    static async Task Overloaded(int x) { await Task.Yield(); Total += Burn(Ms) + x; }
    static async Task Overloaded(string x) { await Task.Yield(); Total += Burn(Ms) + x.Length; }
    static Task Lambda() { Func<Task> f = async () => { await Task.Yield(); Total += Burn(Ms); }; return f(); }
    static Task Capturing(int x) { Func<Task> f = async () => { await Task.Yield(); Total += Burn(Ms) + x; }; return f(); }
    static Task Anonymous() { Func<Task> f = async delegate { await Task.Yield(); Total += Burn(Ms); }; return f(); }
    static async Task LambdaIn(int x) { await Task.Yield(); Action f = () => Total += Burn(Ms) + x; f(); }
    static async Task Finally() { try { await Task.Yield(); } finally { Total += Burn(Ms); } }
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    static async ValueTask Pooled() { await Task.Yield(); Total += Burn(Ms); }
    static async Task Using() { await using var resource = new AsyncResource(); }
}

class AsyncBox<T> { public async Task Load(T value) { await Task.Yield(); Total += Burn(Ms); GC.KeepAlive(value); } }
struct AsyncStruct { public async Task Load() { await Task.Yield(); Total += Burn(Ms); } }
interface ILoader { Task LoadAsync(int id); }
class Loader : ILoader { async Task ILoader.LoadAsync(int id) { await Task.Yield(); Total += Burn(Ms) + id; } }
class AsyncResource : IAsyncDisposable { [MethodImpl(No)] public ValueTask DisposeAsync() { Total += Burn(Ms); return default; } }
struct Awaitable : INotifyCompletion
{
    public Awaitable GetAwaiter() => this;
    public bool IsCompleted => true;
    public void OnCompleted(Action next) => next();
    [MethodImpl(No)] public void GetResult() => Total += Burn(Ms);
}

static class Sequences
{
    public static async Task Run()
    {
        Case("iterator"); foreach (int i in Numbers(1)) Total += i;
        Case("iterator's finally"); foreach (int i in WithFinally(1)) { Total += i; break; }
        Case("generic iterator"); foreach (int i in Repeat(1)) Total += i;
        Case("iterator property"); foreach (int i in Property) Total += i;
        Case("GetEnumerator as an iterator"); foreach (int i in new Sequence()) Total += i;
        Case("explicit GetEnumerator as an iterator"); foreach (object? i in (IEnumerable)new Sequence()) GC.KeepAlive(i);
        Case("lambda in an iterator"); foreach (int i in LambdaIn(1)) Total += i;
        Case("overloaded iterator"); foreach (int i in Overloaded("x")) Total += i;
        Case("async iterator"); await foreach (int i in Stream(1)) Total += i;
        Case("user's enumerator"); foreach (int i in new Countdown()) Total += i;
    }

    static IEnumerable<int> Numbers(int count) { Total += Burn(Ms); yield return count; }
    static IEnumerable<int> WithFinally(int count) { try { yield return count; } finally { Total += Burn(Ms); } }
    static IEnumerable<T> Repeat<T>(T value) { Total += Burn(Ms); yield return value; }
    static IEnumerable<int> Property { get { Total += Burn(Ms); yield return 1; } }
    static IEnumerable<int> LambdaIn(int x) { Func<int> f = () => { Total += Burn(Ms); return x; }; yield return f(); }
    static IEnumerable<int> Overloaded(int x) { Total += Burn(Ms); yield return x; }
    static IEnumerable<int> Overloaded(string x) { Total += Burn(Ms); yield return x.Length; }
    static async IAsyncEnumerable<int> Stream(int count) { await Task.Yield(); Total += Burn(Ms); yield return count; }
}

class Sequence : IEnumerable<int>
{
    public IEnumerator<int> GetEnumerator() { Total += Burn(Ms); yield return 1; }
    IEnumerator IEnumerable.GetEnumerator() { Total += Burn(Ms); yield return 1; }
}

class Countdown
{
    public Enumerator GetEnumerator() => new();
    public struct Enumerator
    {
        public int Current => 1;
        [MethodImpl(No)] public bool MoveNext() { Total += Burn(Ms); return false; }
    }
}
