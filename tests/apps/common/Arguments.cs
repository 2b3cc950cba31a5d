using System;
using System.Globalization;
using System.Linq;

namespace Corprof.TestApps;

/// <summary>The program's arguments: <c>--name value</c> pairs and bare <c>--flags</c>.</summary>
sealed class Arguments
{
    readonly string[] words;

    public Arguments(string[] words) => this.words = words;

    public bool Has(string flag) => words.Contains("--" + flag);

    public int Int(string name, int otherwise) => (int)Double(name, otherwise);

    public double Double(string name, double otherwise) =>
        Has(name) ? double.Parse(Text(name), CultureInfo.InvariantCulture) : otherwise;

    public string Text(string name) => words[Array.IndexOf(words, "--" + name) + 1];
}
