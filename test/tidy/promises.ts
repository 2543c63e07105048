// The table of promises in test/README.md: each has a file that shows it in the gate, and each slow file shows one.

import type { Finding, SourceFile } from './files.ts'

const document = 'test/README.md'
const heading = '| Promise | In the gate | With `--all` |'
const inFileDepth = /\b(inDepth|firstOf|isDeep)\b/

/** A file is named by its path below test/, without `.test.ts`. */
export function promises(files: readonly SourceFile[]): Finding[] {
  const tests = new Map(
    files.flatMap(({ path, text }) => (/^test\/.*\.test\.ts$/.test(path) ? [[path.slice('test/'.length, -'.test.ts'.length), text]] : [])),
  )
  const table = (files.find(({ path }) => path === document)?.text ?? '').split(`${heading}\n`)[1]?.split('\n\n', 1)[0] ?? ''
  const rows = table
    .split('\n')
    .slice(1)
    .filter(row => row !== '')
  const named = { gate: new Set<string>(), depth: new Set<string>() }
  const findings = rows.flatMap(row => {
    const [, promise = '', gate = '', depth = ''] = row.split(/(?<!\\)\|/)
    const say = (what: string): Finding => `${document}: "${promise.trim()}" ${what}`
    const inGate = namesIn(gate)
    const inDepth = namesIn(depth)
    for (const name of inGate) named.gate.add(name)
    for (const name of inDepth) named.depth.add(name)
    return [
      ...(inGate.length === 0 ? [say('has no file in the gate')] : []),
      ...[...inGate, ...inDepth].filter(name => !tests.has(name)).map(name => say(`names ${name}, which is not a test`)),
      ...inGate.filter(name => name.endsWith('.deep')).map(name => say(`is not shown in the gate by ${name}`)),
      ...inDepth
        .filter(name => tests.has(name) && !name.endsWith('.deep') && !inFileDepth.test(tests.get(name)!))
        .map(name => say(`is not deepened by ${name}, which has nothing that only --all runs`)),
    ]
  })
  const missing = [...tests].flatMap(([name, text]) => {
    const say = (column: string): Finding => `test/${name}.test.ts: is missing in the ${column} column of ${document}`
    if (name.endsWith('.deep')) return named.depth.has(name) ? [] : [say('--all')]
    if (!name.endsWith('.slow')) return []
    return [...(named.gate.has(name) ? [] : [say('gate')]), ...(inFileDepth.test(text) && !named.depth.has(name) ? [say('--all')] : [])]
  })
  return [...findings, ...missing]
}

function namesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!)
}
