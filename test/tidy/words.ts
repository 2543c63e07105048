// Words that no file may contain: promises of later work, mentions of how it was made, and paths of one machine.

import type { Finding, SourceFile } from './files.ts'

const banned: readonly { readonly pattern: RegExp; readonly why: string }[] = [
  { pattern: /\b(TODO|FIXME|XXX|HACK)\b/, why: 'promises work: do it' },
  { pattern: /\bnot (yet )?implemented\b/i, why: 'is a stub: write it, or leave it out' },
  { pattern: /\bissues? (#|no\. ?)?\d+\b|#\d+ (issue|ticket)/i, why: 'names a ticket: say what it says' },
  { pattern: /\b(DESIGN|STYLE|LIBRARIES|FORMATS)(\.md| §)/, why: 'cites what a reader does not have: cite SPEC, an RFC or a README' },
  {
    pattern:
      /\b(as an AI|language model|AI assistant|coding agent|sub-?agent|Claude|Anthropic|OpenAI|ChatGPT|the brief says|this session|prompt engineering)\b/i,
    why: 'speaks of how the project was made: it speaks of itself alone',
  },
  {
    pattern: /(^|[\s'"`(=:])\/(work|root|farm|home\/[a-z]+)\//,
    why: 'is a path of one machine: name it from the project, or by an option',
  },
  {
    pattern: /https?:\/\/[^\s'"`]*\bregistry\b|\bregistry\.npmjs|\bverdaccio\b|\bartifactory\b|\bjfrog\b/i,
    why: 'is the host of a registry: npm knows its own',
  },
]

/** The command as typed in the project's folder. Tests may run where another `sluice` is the command. */
const command = {
  pattern:
    /(?<![./\w-])sluice (up|api|ingest|writer|reader|config|senml|json|send|tail|dlq|verify|trace|provision|policies|secrets|--help|--version|<\w+>)(?![\w/])/,
  why: 'is the command without its path: write ./sluice',
}

/** The rules themselves, and files that cannot avoid it. */
const exempt = /^test\/tidy\/|\/fixtures\/|^\.git/

export function words(files: readonly SourceFile[]): Finding[] {
  return files
    .filter(({ path }) => !exempt.test(path))
    .flatMap(({ path, text }) => {
      const rules = /^test\/.*\.ts$/.test(path) ? banned : [...banned, command]
      return text.split('\n').flatMap((line, index) =>
        rules.flatMap(({ pattern, why }) => {
          const match = pattern.exec(line)
          return match === null ? [] : [`${path}:${index + 1}: "${match[0].trim()}" ${why}`]
        }),
      )
    })
}
