// Names of files and declarations for which the project has other words.

import { parseAst } from 'vitest/node'
import type { Finding, SourceFile } from './files.ts'

interface Word {
  /** A pattern of words of a name, in lower case and with spaces between them: `open raw run`. */
  readonly words: string
  readonly say: string
  /** Where the word has the replaced meaning; everywhere if missing. */
  readonly only?: RegExp
  /** Exceptions, as `<path> <name>`. */
  readonly except?: readonly string[]
  /** Why the word is right elsewhere, or there. Required with `only` and `except`. */
  readonly why?: string
  /** Applies only to files and folders. */
  readonly isPath?: true
}

const product = /^(?!test\/|benchmarks\/)/
const deadLetters = /^(pipeline\/(audit|dead-letters|writer)|roles\/(tools|writer))\/|^up\.ts/
const readers = /^readers\//

/** The project's words: what to avoid, and what to use. */
export const said: readonly Word[] = [
  { words: 'raw runs?', say: 'chunk' },
  { words: '^runs|^run (bytes|content)', say: 'chunk', only: /^pipeline\//, why: 'elsewhere, as a verb and of a process, a run is a run' },
  { words: 'lanes?', say: 'partition queue' },
  {
    words: '(?<!dead )letters?',
    say: 'dead letter',
    only: deadLetters,
    except: [
      'pipeline/dead-letters/queue.ts letters',
      'pipeline/dead-letters/routes.ts letters',
      'roles/tools/target/remote.ts letters',
      'pipeline/audit/trace.ts letter',
      'roles/tools/trace.ts letter',
    ],
    why: 'elsewhere it is a letter of the alphabet; the exceptions are fields of HTTP answers',
  },
  {
    words: 'entr(y|ies)|words?',
    say: 'dead letter or resolution',
    only: /^pipeline\/dead-letters\//,
    why: 'both are ordinary words elsewhere',
  },
  { words: 'settlements?', say: 'resolution' },
  {
    words: 'places?',
    say: 'keyset, fetch position, batch location or stream offset',
    only: /^(pipeline|readers|roles\/(reader|writer)|sinks)\//,
    except: ['sinks/options.ts place'],
    why: 'an option fault has the place of the option; in transformers a place is that of a digit',
  },
  { words: 'questions?', say: 'request or filter' },
  { words: 'selections?', say: 'filter', only: /^(pipeline|readers|roles)\//, why: 'InfluxDB writes selections of lines' },
  {
    words: 'parameters',
    say: 'request or filter',
    only: readers,
    why: 'SQL, OpenAPI and Argon2 have parameters',
  },
  { words: 'seal(ed|s)?', say: 'cursor codec', only: readers, why: 'the control plane seals secrets' },
  { words: 'sharing', say: 'single flight', only: readers, why: 'sharing a thing is part of the HTTP API' },
  { words: 'rooms?', say: 'concurrency limit, buffer pool, space or capacity' },
  { words: 'weighted|media type|content coding', say: 'content negotiation', only: readers, isPath: true, why: 'RFC 9110 has media types' },
  {
    words: 'parts',
    say: 'paging',
    only: product,
    isPath: true,
    why: 'a function is put together from its parts, and a text is split into them',
  },
  { words: 'paces?', say: 'chunk size' },
  { words: 'idle client', say: 'slow client' },
  { words: 'idle', say: 'slow client', only: readers, why: 'connections and queues are idle' },
  { words: 'settle[ds]?', say: 'insert outcome', only: /^sinks\/mongodb\//, why: 'messages and promises are settled' },
  { words: 'moments?', say: 'civil time' },
  { words: 'instants?', say: 'timestamp or time range' },
  { words: 'created$', say: 'created header', isPath: true, why: 'what was created when is a field of messages, answers and tables' },
  { words: 'heads', say: 'document layout', only: product, why: 'tests look at several heads of CBOR' },
  { words: 'numbered', say: 'sequence registry', only: product, why: 'tests number their messages' },
  { words: 'alarms?', say: 'deadline timer' },
  { words: '^(open )?days( options)?$', say: 'day registry', isPath: true, why: 'days are days' },
  { words: 'open days|days options', say: 'day registry' },
  { words: 'closings', say: 'cleanup' },
  { words: 'silences?', say: 'liveness', only: product, why: 'tests silence servers' },
  { words: 'in process', say: 'admin routes' },
  { words: 'sites?', say: 'target', only: product, why: 'a test has a site: the processes and stores that it runs' },
  { words: 'turns', say: 'mutex, fair semaphore or attempts', only: product, why: 'benchmarks measure in turns' },
  { words: '(is )?cut|cut short', say: 'abort or deadline', only: product, why: 'tests cut connections, power and texts' },
  { words: 'ending|stopping', say: 'stop', only: product, why: 'tests have several signals' },
  { words: 'giv(e|en|ing) up|abandon(able|ed|ing)?', say: 'abort or deadline', only: product, why: 'tests play callers that give up' },
  { words: 'utils|helpers', say: 'what is in it' },
  { words: '(?<!queued )policy changes?', say: 'policy writer or queued policy change' },
  { words: 'change outcome', say: 'write outcome' },
  { words: 'given', say: 'requested, or what it is', only: /^control-plane\//, why: 'elsewhere it is a plain word for an input' },
  { words: 'beside', say: 'what it has to do with it', only: product, why: 'tests put a fault beside what is valid' },
  {
    words: '^(alone|elsewhere|held|seen|shown)$',
    say: 'exclusive, external, blocked or what is done with it',
    only: /^control-plane\//,
    why: 'elsewhere they have their plain meaning',
  },
  { words: 'open changes', say: 'access changes' },
  {
    words: '(?<!bootstrap )configs?',
    say: 'bootstrap config',
    only: /^control-plane\//,
    except: [
      'control-plane/bootstrap/bootstrap-configs.ts config',
      'control-plane/bootstrap/routes.ts config',
      'control-plane/bootstrap/store.ts config',
      'control-plane/provisioning/options.ts configPath',
    ],
    why: 'elsewhere it is the configuration of a process; where bootstrap configurations are the subject, a local need not repeat it',
  },
  {
    words: '^of .+',
    say: 'what it is, as `thingFields` for what a thing has',
  },
]

/** The properties that declare names, by kind of syntax. Keys of object literals are left out: they follow a type or a foreign format. */
const declaring: Readonly<Record<string, readonly string[]>> = {
  ArrowFunctionExpression: ['params'],
  CatchClause: ['param'],
  ClassDeclaration: ['id'],
  FunctionDeclaration: ['id', 'params'],
  FunctionExpression: ['id', 'params'],
  MethodDefinition: ['key'],
  PropertyDefinition: ['key'],
  TSCallSignatureDeclaration: ['params'],
  TSFunctionType: ['params'],
  TSInterfaceDeclaration: ['id'],
  TSMethodSignature: ['key', 'params'],
  TSPropertySignature: ['key'],
  TSTypeAliasDeclaration: ['id'],
  VariableDeclarator: ['id'],
}

interface Declared {
  readonly name: string
  readonly start: number
}

type Node = Readonly<Record<string, unknown>> & { readonly type: string; readonly start: number }

export function wordedNames(files: readonly SourceFile[]): Finding[] {
  return files
    .filter(({ path }) => path.endsWith('.ts') && !path.includes('/fixtures/'))
    .flatMap(({ path, text }) => {
      const pathFaults = faultsOf(
        path
          .replace(/(\.(slow|deep))?(\.test)?\.ts$/, '')
          .split('/')
          .join('. ')
          .replaceAll('-', ' '),
        path,
        path,
        true,
      )
      const found: Finding[] = pathFaults.map(fault => `${path}: the path ${fault}`)
      for (const { name, start } of declaredIn(text)) {
        for (const fault of faultsOf(wordsOf(name), path, name, false)) {
          found.push(`${path}:${text.slice(0, start).split('\n').length}: ${name} ${fault}`)
        }
      }
      return found
    })
}

function declaredIn(text: string): Declared[] {
  const found: Declared[] = []

  function visit(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    if (Array.isArray(value)) return value.forEach(visit)
    const node = value as Node
    for (const key of declaring[node.type] ?? []) bind(node[key])
    for (const key in node) visit(node[key])
  }

  /** For a name, or a pattern of names. */
  function bind(value: unknown): void {
    if (Array.isArray(value)) return value.forEach(bind)
    const node = value as Node | null
    if (node?.type === 'Identifier' || node?.type === 'PrivateIdentifier') found.push({ name: node['name'] as string, start: node.start })
    else if (node?.type === 'ObjectPattern') bind(node['properties'])
    else if (node?.type === 'Property') bind(node['value'])
    else if (node?.type === 'ArrayPattern') bind(node['elements'])
    else if (node?.type === 'AssignmentPattern') bind(node['left'])
    else if (node?.type === 'RestElement') bind(node['argument'])
    else if (node?.type === 'TSParameterProperty') bind(node['parameter'])
  }

  visit(parseAst(text, { lang: 'ts' }))
  return found
}

/** `openRawRun` becomes `open raw run`. */
function wordsOf(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
}

const patterns = said.map(word => ({ ...word, pattern: new RegExp(`(^|[ .])(${word.words})($|[ .])`) }))

function faultsOf(text: string, path: string, name: string, isPath: boolean): string[] {
  return patterns
    .filter(({ pattern }) => pattern.test(text))
    .filter(word => (isPath || word.isPath !== true) && (word.only ?? /^/).test(path) && word.except?.includes(`${path} ${name}`) !== true)
    .map(({ words, say }) => `says "${words}": say ${say}`)
}
