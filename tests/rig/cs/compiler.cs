// The rig's C# compiler: Roslyn behind a command line like csc's. It is itself compiled by mcs,
// hence C# 7, and no call of a method that has an overload with spans: mcs cannot load those.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Emit;
using Microsoft.CodeAnalysis.Text;

namespace Corprof.Rig
{
    /// <summary>Makes one compilation of each response file that it is given.</summary>
    static class Compiler
    {
        // Shared by all compilations of a run: reading the framework's metadata is half their cost.
        static readonly Dictionary<string, MetadataReference> References =
            new Dictionary<string, MetadataReference>();

        static int Main(string[] responseFiles)
        {
            if (responseFiles.Length == 0)
            {
                Console.WriteLine("usage: compiler @options.rsp...");
                return 2;
            }
            return responseFiles.Count(file => !Compile(file)) == 0 ? 0 : 1;
        }

        static bool Compile(string responseFile)
        {
            var command = CSharpCommandLineParser.Default.Parse(
                new[] { responseFile }, Directory.GetCurrentDirectory(), null, null);
            if (!Report(command.Errors))
                return false;

            var compilation = CSharpCompilation.Create(
                command.CompilationName ?? "unnamed",
                command.SourceFiles.Select(file => Parse(file.Path, command.ParseOptions)),
                command.MetadataReferences.Select(reference => Reference(reference.Reference)),
                command.CompilationOptions);
            return Report(Emit(compilation, command));
        }

        /// <summary>Without /out the result stays in memory: a mere workload.</summary>
        static IEnumerable<Diagnostic> Emit(Compilation compilation, CommandLineArguments command)
        {
            if (command.OutputFileName == null)
                return compilation.Emit(new MemoryStream(), new MemoryStream()).Diagnostics;

            var assembly = Path.Combine(command.OutputDirectory, command.OutputFileName);
            var symbols = Path.ChangeExtension(assembly, ".pdb");
            if (command.EmitOptions.DebugInformationFormat == DebugInformationFormat.Embedded)
            {
                using (var file = File.Create(assembly))
                {
                    var embedded = command.EmitOptions.WithPdbFilePath(new FileInfo(symbols).Name);
                    return compilation.Emit(file, options: embedded).Diagnostics;
                }
            }
            using (var assemblyFile = File.Create(assembly))
            using (var symbolsFile = File.Create(symbols))
            {
                // The bare file name: readers look beside the assembly, wherever it was moved.
                var options = command.EmitOptions.WithPdbFilePath(new FileInfo(symbols).Name);
                return compilation.Emit(assemblyFile, symbolsFile, options: options).Diagnostics;
            }
        }

        static SyntaxTree Parse(string path, CSharpParseOptions options)
        {
            using (var file = File.OpenRead(path))
            {
                var text = SourceText.From(file, Encoding.UTF8, SourceHashAlgorithm.Sha256);
                return CSharpSyntaxTree.ParseText(text, options, path);
            }
        }

        static MetadataReference Reference(string path)
        {
            MetadataReference reference;
            if (!References.TryGetValue(path, out reference))
            {
                reference = MetadataReference.CreateFromFile(path);
                References.Add(path, reference);
            }
            return reference;
        }

        /// <summary>Prints warnings and errors; true if there was no error.</summary>
        static bool Report(IEnumerable<Diagnostic> diagnostics)
        {
            var success = true;
            foreach (var diagnostic in diagnostics)
            {
                if (diagnostic.IsSuppressed || diagnostic.Severity < DiagnosticSeverity.Warning)
                    continue;
                Console.WriteLine(diagnostic);
                success &= diagnostic.Severity != DiagnosticSeverity.Error;
            }
            return success;
        }
    }
}
