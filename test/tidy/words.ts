// Words that no file may contain: promises of later work, mentions of how it was made, paths of one machine, and words of the product that are not
// plain English.

import { parseAst } from 'vitest/node'
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
  {
    pattern: /\b(request|reply)\.log\.(trace|debug|info)\b/,
    why: 'is silent, as the server logs from warn on: use the logger of the process',
  },
]

/** The command as typed in the project's folder. Tests may run where another `sluice` is the command. */
const command = {
  pattern:
    /(?<![./\w-])sluice (up|api|ingest|writer|reader|config|senml|json|send|tail|dlq|verify|trace|logs|provision|policies|secrets|--help|--version|<\w+>)(?![\w/])/,
  why: 'is the command without its path: write ./sluice',
}

interface Plain {
  readonly pattern: RegExp
  readonly say: string
  /** Comments may have it. */
  readonly onlyTexts?: true
}

/** What an engineer would not say. Of the product's code: its errors, log lines, descriptions and help, and its comments. */
const plain: readonly Plain[] = [
  { pattern: /\bnobody\b/i, say: 'no client, no caller' },
  { pattern: /\banew\b/i, say: 'again' },
  { pattern: /\b(is|are|was|were) told\b/i, say: 'gets, is notified' },
  { pattern: /\b(gives?|gave|given) back\b/i, say: 'returns' },
  { pattern: /\b(lies?|lay) (ahead|behind|beyond)\b/i, say: 'is behind' },
  { pattern: /\bany ?more(?=[.,:;)]|\W*$)/im, say: 'no longer', onlyTexts: true },
  { pattern: /\b(held|holds? [^.\n]{1,60}) against\b/i, say: 'compares' },
  { pattern: /(?<!\b(there|0) )\b(is|are) no\b(?! longer\b)/i, say: 'is not a', onlyTexts: true },
  { pattern: /\b(goes|going) on\b/i, say: 'continues', onlyTexts: true },
  { pattern: /\btakes? away\b/i, say: 'removes', onlyTexts: true },
  { pattern: /\bfault of the program\b/i, say: 'a bug in sluice', onlyTexts: true },
  { pattern: /\btrying again\b/i, say: 'retrying', onlyTexts: true },
  { pattern: /\bin (its|their) place\b/i, say: 'instead', onlyTexts: true },
]

const product = /^(?!test\/|benchmarks\/).*\.ts$/

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
    .concat(files.filter(({ path }) => product.test(path)).flatMap(stiltedWords))
}

function stiltedWords({ path, text }: SourceFile): Finding[] {
  let texts: readonly Span[] | undefined
  return plain.flatMap(({ pattern, say, onlyTexts }) => {
    const found = [...text.matchAll(new RegExp(pattern, `${pattern.flags}g`))]
    // Most files have none and need not be parsed.
    if (found.length > 0 && onlyTexts === true) texts ??= textsIn(text)
    return found
      .filter(({ index }) => onlyTexts !== true || texts!.some(({ start, end }) => index >= start && index < end))
      .map(match => `${path}:${text.slice(0, match.index).split('\n').length}: "${match[0]}" is not plain English: say ${say}`)
  })
}

interface Span {
  readonly start: number
  readonly end: number
}

/** The string literals, and the parts of templates between their expressions. */
function textsIn(code: string): Span[] {
  const found: Span[] = []
  function visit(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    if (Array.isArray(value)) return value.forEach(visit)
    const node = value as Readonly<Record<string, unknown>> & Span
    if (node['type'] === 'TemplateElement' || typeof node['value'] === 'string') found.push(node)
    for (const key in node) visit(node[key])
  }
  visit(parseAst(code, { lang: 'ts' }))
  return found
}
