using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;

namespace Corprof.TestApps;

/// <summary>Threads that compute through many calls: --seconds N, --copies N.</summary>
static class Calls
{
    static readonly Regex Address = new(@"(\w+)(\.\w+)*@(\w+)\.(com|org|net)", RegexOptions.None);
    static readonly string Text = string.Join(" ", Enumerable.Range(0, 300).Select(MakeWord));

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var limit = TimeSpan.FromSeconds(arguments.Double("seconds", 10));
        (string, Func<long>)[] kinds =
        {
            ("sort", Sort),
            ("query", Query),
            ("regex", Match),
            ("json", RoundTrip),
            ("format", Format),
            ("recursion", () => Fibonacci(22)),
            ("virtual", Measure),
            ("generic", Generic),
        };
        var crew = new Crew();
        for (var copy = 0; copy < arguments.Int("copies", 1); copy++)
        {
            foreach (var (name, kind) in kinds)
                crew.Add($"{name}-{copy}", truth => truth.Add("rounds", Repeat(kind, limit)));
        }
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    static string MakeWord(int i) => i % 7 == 0 ? $"user.{i}@host{i}.org" : $"word{i}";

    static long Repeat(Func<long> kind, TimeSpan limit)
    {
        var watch = Stopwatch.StartNew();
        long rounds = 0;
        for (; watch.Elapsed < limit; rounds++)
            kind();
        return rounds;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Sort()
    {
        var random = new Random(1);
        var list = Enumerable.Range(0, 2_000).Select(_ => random.Next()).ToList();
        list.Sort((a, b) => b.CompareTo(a));
        var sorted = new SortedDictionary<string, int>(StringComparer.Ordinal);
        foreach (var value in list.Take(300))
            sorted[value.ToString()] = value;
        return sorted.Values.First();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Query()
    {
        var groups =
            from number in Enumerable.Range(0, 2_000)
            where number % 3 != 0
            group number by number % 17 into g
            orderby g.Key descending
            select new { g.Key, Sum = g.Sum(n => (long)n) };
        return groups.ToDictionary(g => g.Key, g => g.Sum).Values.Max();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Match() => Address.Matches(Text).Count;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long RoundTrip()
    {
        var lines = Enumerable.Range(0, 50).Select(i => new Line { Sku = "s" + i, Count = i });
        var order = new Order { Customer = "someone", Lines = lines.ToList() };
        return JsonSerializer.Deserialize<Order>(JsonSerializer.Serialize(order))!.Lines.Count;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Format()
    {
        var text = new StringBuilder();
        for (var i = 0; i < 500; i++)
            text.AppendFormat("{0:x8} {1,12:f3} {2}", i, i / 7.0, DateTime.UnixEpoch.AddHours(i));
        return text.Length;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Fibonacci(int n) => n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Measure()
    {
        Shape[] shapes = { new Square(3), new Circle(2), new Pair(new Square(1), new Circle(1)) };
        var sum = 0.0;
        for (var i = 0; i < 3_000; i++)
        {
            sum += shapes[i % shapes.Length].Area();
            sum += ((INamed)shapes[i % shapes.Length]).Name.Length;
        }
        return (long)sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Generic()
    {
        var tree = new Tree<string>();
        for (var i = 0; i < 500; i++)
            tree.Insert("key" + i * 7919 % 500);
        var numbers = new Tree<long>();
        for (var i = 0; i < 500; i++)
            numbers.Insert(i * 7919 % 500);
        return tree.Depth + numbers.Depth;
    }

    public class Order
    {
        public string Customer { get; set; } = "";
        public List<Line> Lines { get; set; } = new();
    }

    public class Line
    {
        public string Sku { get; set; } = "";
        public int Count { get; set; }
    }

    interface INamed
    {
        string Name { get; }
    }

    abstract class Shape : INamed
    {
        public virtual string Name => GetType().Name;

        public abstract double Area();
    }

    sealed class Square : Shape
    {
        readonly double side;

        public Square(double side) => this.side = side;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public override double Area() => side * side;
    }

    sealed class Circle : Shape
    {
        readonly double radius;

        public Circle(double radius) => this.radius = radius;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public override double Area() => Math.PI * radius * radius;
    }

    sealed class Pair : Shape
    {
        readonly Shape first;
        readonly Shape second;

        public Pair(Shape first, Shape second) => (this.first, this.second) = (first, second);

        public override string Name => first.Name + second.Name;

        public override double Area() => first.Area() + second.Area();
    }

    /// <summary>A search tree: generic code over a class and over a value type.</summary>
    sealed class Tree<T> where T : IComparable<T>
    {
        Node? root;

        public int Depth => root?.Depth ?? 0;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void Insert(T value)
        {
            if (root == null)
                root = new Node(value);
            else
                root.Insert(value);
        }

        sealed class Node
        {
            readonly T value;
            Node? left;
            Node? right;

            public Node(T value) => this.value = value;

            public int Depth => 1 + Math.Max(left?.Depth ?? 0, right?.Depth ?? 0);

            public void Insert(T other)
            {
                ref var side = ref other.CompareTo(value) < 0 ? ref left : ref right;
                if (side == null)
                    side = new Node(other);
                else
                    side.Insert(other);
            }
        }
    }
}
