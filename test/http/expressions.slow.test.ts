// Regular expressions that see requests take time in proportion to the text: one that tries again from each place would stop the process for every
// client, before any key is checked.

import { createContext, Script } from 'node:vm'
import { constant, sample, stringMatching } from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { parseAst } from 'vitest/node'
import { isStrict } from '../../pipeline/ingest/strict-handling.ts'
import { readProject, type SourceFile } from '../tidy/files.ts'

/** What sees headers, paths, queries and bodies. */
const seesRequests = /^(http|pipeline\/(ingest|administration|dead-letters|audit)|readers|control-plane|console|transformers)\b.*\.ts$/

/** Operators alone write its texts. */
const layouts = 'control-plane/provisioning/names.ts'

/** Expressions that are made by code, and what to call instead. Those of routes are Fastify's paths, whose parameters are whole segments. */
const made: Readonly<Record<string, ((text: string) => unknown) | undefined>> = {
  'http/server.ts': undefined,
  'pipeline/ingest/strict-handling.ts': isStrict,
}

/** A header is at most 16 KiB. In quadratic time this takes 20 s and more. */
const length = 2 ** 18
/** In linear time all texts of an expression take less than 0.5 s. */
const slowUs = 3_000_000
const waitMs = 5000

interface Expression {
  readonly at: string
  readonly source: string
  readonly flags: string
}

let expressions: Expression[]
let madeIn: string[]
beforeAll(async () => {
  const files = (await readProject()).filter(({ path }) => seesRequests.test(path) && path !== layouts).map(parse)
  const exported = new Map(files.flatMap(({ constants }) => [...constants]))
  const all = files.map(file => expressionsOf(file, exported))
  expressions = all.flatMap(({ found }) => found)
  madeIn = all.flatMap(({ unknown }) => unknown)
})

test('no expression takes quadratic time, whatever it gets', () => {
  expect(expressions.length).toBeGreaterThan(100)
  const slow = expressions.filter(({ source, flags }) => isSlow(new RegExp(source, flags), hostileTexts(source)))
  expect(slow).toEqual([])
})

test('nor does one that is made by code', () => {
  expect(madeIn).toEqual(Object.keys(made))
  const texts = hostileTexts('[a]=(?:b|"(?:[^"\\\\]|\\\\.)*")')
  const slow = Object.entries(made).filter(([, read]) => read !== undefined && isSlow({ lastIndex: 0, test: read }, texts))
  expect(slow).toEqual([])
})

test('a quadratic expression is noticed', () => {
  expect(isSlow(/x[ \t]*(?:=y)?[ \t]*;/, hostileTexts('x[ \\t]*(?:=y)?[ \\t]*;'))).toBe(true)
})

const matching = new Script('for (const text of texts) { expression.lastIndex = 0; expression.test(text) }')

/** By the time on a core: a busy machine makes everything slow. */
function isSlow(expression: { lastIndex: number; test(text: string): unknown }, texts: readonly string[], timeout = waitMs): boolean {
  const before = process.threadCpuUsage().user
  try {
    matching.runInContext(createContext({ expression, texts }), { timeout })
    return false
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
    return process.threadCpuUsage().user - before > slowUs || isSlow(expression, texts, timeout * 2)
  }
}

/** Runs of blanks and separators, and beginnings of matches with a run behind them; each before an end that fits nowhere. */
function hostileTexts(source: string): string[] {
  const runs = [' ', '\t', ',', ';', '=', '"', '\\', '/', '.', '-', '0', 'a', 'a=b;', '"a'].map(unit => unit.repeat(length / unit.length))
  // What the generator of matches does not know only makes them rarer.
  const bare = source.replaceAll(/\(\?<?[=!](?:[^()]|\([^()]*\))*\)|\\b|\\[1-9]|\\p\{Cs\}/g, '')
  const matches = sample(bare === '' ? constant('') : stringMatching(new RegExp(bare, 'u')), { numRuns: 2, seed: 1 })
  const near = matches
    .map(text => text.slice(0, 8))
    .flatMap(text => [
      text.repeat(length / Math.max(1, text.length)),
      ...Array.from(text, (one, nth) => [' ', one].map(unit => text.slice(0, nth + 1) + unit.repeat(length))).flat(),
    ])
  return [...runs, ...near].map(text => `${text}\u0001`)
}

type Node = Readonly<Record<string, unknown>> & { readonly type: string; readonly start: number }

interface Parsed extends SourceFile {
  readonly nodes: readonly Node[]
  /** The initial values of its constants. */
  readonly constants: ReadonlyMap<string, Node>
}

function parse({ path, text }: SourceFile): Parsed {
  const nodes: Node[] = []
  function visit(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    if (Array.isArray(value)) return value.forEach(visit)
    const node = value as Node
    if (typeof node.type === 'string') nodes.push(node)
    for (const key in node) visit(node[key])
  }
  visit(parseAst(text, { lang: 'ts' }))
  const declared = nodes.filter(({ type, init }) => type === 'VariableDeclarator' && init !== null)
  return { path, text, nodes, constants: new Map(declared.map(({ id, init }) => [(id as Node)['name'] as string, init as Node])) }
}

/** Literals, arguments of `new RegExp`, and patterns of schemas; and the file's path for each whose text is not constant. */
function expressionsOf(
  { path, text, nodes, constants }: Parsed,
  exported: Parsed['constants'],
): { found: Expression[]; unknown: string[] } {
  const found: Expression[] = []
  const unknown: string[] = []
  function add({ start }: Node, source: string | undefined, flags = ''): void {
    if (source === undefined) unknown.push(path)
    else found.push({ at: `${path}:${text.slice(0, start).split('\n').length}`, source, flags })
  }
  function textOf(node: Node): string | undefined {
    if (typeof node['value'] === 'string') return node['value']
    if (node.type === 'Identifier') {
      const value = constants.get(node['name'] as string) ?? exported.get(node['name'] as string)
      return value === undefined ? undefined : textOf(value)
    }
    if (node.type !== 'TemplateLiteral') return undefined
    const inner = (node['expressions'] as Node[]).map(textOf)
    const parts = (node['quasis'] as { value: { cooked: string } }[]).map(({ value }) => value.cooked)
    return inner.includes(undefined) ? undefined : parts.map((part, nth) => part + (inner[nth] ?? '')).join('')
  }
  for (const node of nodes) {
    const { type, regex, callee, arguments: given, key, value } = node
    if (regex !== undefined) {
      const { pattern, flags } = regex as { pattern: string; flags: string }
      add(node, pattern, flags)
    } else if (type === 'NewExpression' && (callee as Node)['name'] === 'RegExp') {
      const [source, flags] = given as Node[]
      add(node, textOf(source!), flags === undefined ? '' : textOf(flags))
    } else if (type === 'Property' && (key as Node)['name'] === 'pattern') add(node, textOf(value as Node), 'u')
    else if (type === 'Property' && (key as Node)['name'] === 'patternProperties') {
      for (const { key } of (value as { properties?: { key: Node }[] }).properties ?? []) add(key, textOf(key), 'u')
    }
  }
  return { found, unknown }
}
