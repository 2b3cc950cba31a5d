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

    public double Double(string name, double otherwise)
    {
        var index = Array.IndexOf(words, "--" + name);
        if (index < 0)
            return otherwise;
        return double.Parse(words[index + 1], CultureInfo.InvariantCulture);
    }
}
