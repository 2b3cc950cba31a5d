// Properties, events, operators and the spelling of parameters.

#pragma warning disable CS0649, CS0659, CS0660, CS0661 // never assigned; Equals without GetHashCode

namespace Corprof.TestApps.Names;

static class Members
{
    public static void Run()
    {
        var thing = new Thing();
        Case("property get"); Total += thing.Size;
        Case("property set"); thing.Size = 1;
        Case("init accessor"); _ = new Thing { Id = 1 };
        Case("static property get"); Total += Thing.Shared;
        Case("indexer get"); Total += thing[1];
        Case("indexer set"); thing["x", 2] = 1;
        Case("event add"); thing.Changed += Plain.StaticMethod;
        Case("event remove"); thing.Changed -= Plain.StaticMethod;
        Case("property of a generic type"); Total += new Holder<int>().Item;
        Case("indexer of a generic type"); new Holder<int>()[1] = "x";
        Case("ref-returning property"); thing.Slot = 1;
        Case("expression-bodied property"); Total += thing.Twice;
        Case("abstract property's override"); Total += ((Shape)new Square()).Area;
        Case("method named like an accessor"); thing.get_away();
        Case("collection initialiser's Add"); _ = new Bag { 1 };
        Case("range slicer"); _ = new Bag()[1..2];
        Case("interpolated string handler"); Log($"{1}");
    }

    static void Log(BurningHandler handler) => handler.Keep();
}

class Thing
{
    public int Size
    {
        [MethodImpl(No)] get { Total += Burn(Ms); return 1; }
        [MethodImpl(No)] set { Total += Burn(Ms); }
    }
    public int Id { get => 1; [MethodImpl(No)] init { Total += Burn(Ms); } }
    public static int Shared { [MethodImpl(No)] get { Total += Burn(Ms); return 1; } }
    public int this[int index] { [MethodImpl(No)] get { Total += Burn(Ms); return 1; } }
    public int this[string key, int index] { [MethodImpl(No)] set { Total += Burn(Ms); } }
    public event Action Changed
    {
        [MethodImpl(No)] add { Total += Burn(Ms); }
        [MethodImpl(No)] remove { Total += Burn(Ms); }
    }
    int slot;
    public ref int Slot { [MethodImpl(No)] get { Total += Burn(Ms); return ref slot; } }
    public long Twice { [MethodImpl(No)] get => Total += Burn(Ms); }
    [MethodImpl(No)] public void get_away() => Total += Burn(Ms);
}

class Holder<T>
{
    public int Item { [MethodImpl(No)] get { Total += Burn(Ms); return 1; } }
    [IndexerName("Entry")]
    public string this[T key] { [MethodImpl(No)] set { Total += Burn(Ms); } }
}

abstract class Shape { public abstract int Area { get; } }
class Square : Shape { public override int Area { [MethodImpl(No)] get { Total += Burn(Ms); return 1; } } }

class Bag : IEnumerable
{
    public int Length => 3;
    [MethodImpl(No)] public void Add(int value) => Total += Burn(Ms);
    [MethodImpl(No)] public Bag Slice(int start, int length) { Total += Burn(Ms); return this; }
    public IEnumerator GetEnumerator() => throw new NotSupportedException();
}

[InterpolatedStringHandler]
struct BurningHandler(int literalLength, int formattedCount)
{
    long kept = literalLength + formattedCount;
    public void Keep() => Total += kept;
    [MethodImpl(No)] public void AppendFormatted<T>(T value) => kept = Burn(Ms);
}

static class Operators
{
    public static void Run()
    {
        Money a = new(1), b = new(2);
        Case("binary operator"); _ = a + b;
        Case("unary operator"); _ = -a;
        Case("increment operator"); a++;
        Case("equality operator"); _ = a == b;
        Case("comparison operator"); _ = a < b;
        Case("shift operator"); _ = a >>> 1;
        Case("complement operator"); _ = ~a;
        Case("operator true"); if (a) Total++;
        Case("implicit conversion"); decimal d = a; Total += (long)d;
        Case("explicit conversion"); Total += (int)a;
        Case("checked operator"); checked { _ = a - b; }
        Case("checked conversion"); checked { Total += (byte)a; }
        Case("operator of a generic type"); _ = new Vector<int>() * 2;
        Case("conversion of a generic type"); int x = new Vector<int>(); Total += x;
        Case("Equals override"); _ = a.Equals((object)b);
        Case("Deconstruct"); var (_, _) = a;
    }
}

readonly struct Money(int value)
{
    readonly int value = value;
    [MethodImpl(No)] public static Money operator +(Money a, Money b) { Total += Burn(Ms); return a; }
    [MethodImpl(No)] public static Money operator -(Money a) { Total += Burn(Ms); return a; }
    public static Money operator -(Money a, Money b) => a;
    [MethodImpl(No)] public static Money operator checked -(Money a, Money b) { Total += Burn(Ms); return a; }
    [MethodImpl(No)] public static Money operator ++(Money a) { Total += Burn(Ms); return a; }
    [MethodImpl(No)] public static Money operator ~(Money a) { Total += Burn(Ms); return a; }
    [MethodImpl(No)] public static Money operator >>>(Money a, int by) { Total += Burn(Ms); return a; }
    [MethodImpl(No)] public static bool operator ==(Money a, Money b) { Total += Burn(Ms); return true; }
    public static bool operator !=(Money a, Money b) => false;
    [MethodImpl(No)] public static bool operator <(Money a, Money b) { Total += Burn(Ms); return true; }
    public static bool operator >(Money a, Money b) => false;
    [MethodImpl(No)] public static bool operator true(Money a) { Total += Burn(Ms); return true; }
    public static bool operator false(Money a) => false;
    [MethodImpl(No)] public static implicit operator decimal(Money a) { Total += Burn(Ms); return a.value; }
    [MethodImpl(No)] public static explicit operator int(Money a) { Total += Burn(Ms); return a.value; }
    public static explicit operator byte(Money a) => 1;
    [MethodImpl(No)] public static explicit operator checked byte(Money a) { Total += Burn(Ms); return 1; }
    [MethodImpl(No)] public override bool Equals(object? other) { Total += Burn(Ms); return true; }
    [MethodImpl(No)] public void Deconstruct(out int whole, out int cents) { whole = cents = 1; Total += Burn(Ms); }
}

struct Vector<T>
{
    [MethodImpl(No)] public static Vector<T> operator *(Vector<T> a, int by) { Total += Burn(Ms); return a; }
    [MethodImpl(No)] public static implicit operator T(Vector<T> a) { Total += Burn(Ms); return default!; }
}

static unsafe class Parameters
{
    public static void Run()
    {
        int number = 1; int? maybe = 1;
        Case("primitive parameters"); Primitives(true, 1, 2, 3, 4, 5, 6, 7, 8);
        Case("more primitive parameters"); MorePrimitives(1, 2, 3, 'c', "", new(), 4, 5);
        Case("ref parameter"); Ref(ref number);
        Case("out parameter"); Out(out _);
        Case("in parameter"); In(in number);
        Case("ref readonly parameter"); RefReadonly(in number);
        Case("params parameter"); Params("x", "y");
        Case("optional parameter"); Optional();
        Case("nullable parameter"); Nullable(maybe, DayOfWeek.Monday);
        Case("tuple parameter"); Tuple((1, ""));
        Case("named tuple parameter"); NamedTuple((1, (true, 2)));
        Case("long tuple parameter"); LongTuple((1, 2, 3, 4, 5, 6, 7, 8, 9));
        Case("array parameter"); Array([1]);
        Case("jagged array parameter"); Jagged([[1]]);
        Case("multi-dimensional array parameter"); Cube(new int[1, 1, 1], new string[1, 1][]);
        Case("pointer parameter"); Pointer(&number, null, null);
        Case("function pointer parameter"); FunctionPointer(&Twice);
        Case("unmanaged function pointer parameter"); UnmanagedPointer(null);
        Case("span parameter"); Span([1], "x");
        Case("dynamic parameter"); Dynamic(1);
        Case("delegate parameters"); Delegates(() => { }, _ => "");
        Case("nested generic parameter"); NestedGeneric(new Dictionary<string, List<int?>>());
        Case("nested type parameter"); NestedType(new Dictionary<int, string>().GetEnumerator(), default);
        Case("user types as parameters"); UserTypes(new Box<Money>(), new Outer<int>.Inner<string>(), Level.Low);
        Case("anonymous type as an argument"); Anonymous(new { Id = 1, Name = "x" });
        Case("ref to array of nullables"); int?[] many = [1]; RefArray(ref many);
    }

    static int Twice(int x) => x * 2;
    [MethodImpl(No)] static void Primitives(bool a, sbyte b, byte c, short d, ushort e, int f, uint g, long h, ulong i) => Total += Burn(Ms);
    [MethodImpl(No)] static void MorePrimitives(float a, double b, decimal c, char d, string e, object f, nint g, nuint h) => Total += Burn(Ms);
    [MethodImpl(No)] static void Ref(ref int value) => Total += Burn(Ms);
    [MethodImpl(No)] static void Out(out int value) { value = 1; Total += Burn(Ms); }
    [MethodImpl(No)] static void In(in int value) => Total += Burn(Ms);
    [MethodImpl(No)] static void RefReadonly(ref readonly int value) => Total += Burn(Ms);
    [MethodImpl(No)] static void Params(params string[] values) => Total += Burn(Ms);
    [MethodImpl(No)] static void Optional(int value = 1) => Total += Burn(Ms);
    [MethodImpl(No)] static void Nullable(int? value, DayOfWeek? day) => Total += Burn(Ms);
    [MethodImpl(No)] static void Tuple((int, string) pair) => Total += Burn(Ms);
    [MethodImpl(No)] static void NamedTuple((int Id, (bool Ok, long Size) Extra) pair) => Total += Burn(Ms);
    [MethodImpl(No)] static void LongTuple((int, int, int, int, int, int, int, int, long) many) => Total += Burn(Ms);
    [MethodImpl(No)] static void Array(int[] values) => Total += Burn(Ms);
    [MethodImpl(No)] static void Jagged(int[][] values) => Total += Burn(Ms);
    [MethodImpl(No)] static void Cube(int[,,] values, string[,][] mixed) => Total += Burn(Ms);
    [MethodImpl(No)] static void Pointer(int* value, void* any, byte** table) => Total += Burn(Ms);
    [MethodImpl(No)] static void FunctionPointer(delegate*<int, int> f) => Total += Burn(Ms);
    [MethodImpl(No)] static void UnmanagedPointer(delegate* unmanaged[Cdecl]<int, void> f) => Total += Burn(Ms);
    [MethodImpl(No)] static void Span(Span<int> values, ReadOnlySpan<char> text) => Total += Burn(Ms);
    [MethodImpl(No)] static void Dynamic(dynamic value) => Total += Burn(Ms);
    [MethodImpl(No)] static void Delegates(Action a, Func<int, string> b) => Total += Burn(Ms);
    [MethodImpl(No)] static void NestedGeneric(Dictionary<string, List<int?>> map) => Total += Burn(Ms);
    [MethodImpl(No)] static void NestedType(Dictionary<int, string>.Enumerator a, Grid.Cell b) => Total += Burn(Ms);
    [MethodImpl(No)] static void UserTypes(Box<Money> a, Outer<int>.Inner<string> b, Level c) => Total += Burn(Ms);
    [MethodImpl(No)] static void Anonymous<T>(T value) => Total += Burn(Ms);
    [MethodImpl(No)] static void RefArray(ref int?[] values) => Total += Burn(Ms);
}
