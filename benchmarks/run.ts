// `npm run bench -- <words> [options]`: runs the benchmarks whose path contains every word, one after another, each in its own process.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'

const folder = new URL('.', import.meta.url).pathname

/** A folder with an index.ts is one benchmark. The raw loops in `raw/` are parts of `stores/`. */
async function benchmarks(): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries
    .filter(entry => entry.isFile() && entry.name.endsWith('.ts'))
    .map(entry => relative(folder, join(entry.parentPath, entry.name)))
    .filter(path => path.includes('/') && !path.startsWith('raw/'))
  const indexed = new Set(paths.filter(path => path.endsWith('/index.ts')).map(dirname))
  return paths.filter(path => !indexed.has(dirname(path)) || path.endsWith('/index.ts')).sort()
}

const given = process.argv.slice(2)
const optionsFrom = given.findIndex(word => word.startsWith('-'))
const words = optionsFrom === -1 ? given : given.slice(0, optionsFrom)
const options = given.slice(words.length)
const wantsHelp = options.some(option => ['-h', '--help'].includes(option))
const all = await benchmarks()
if (words.length === 0) {
  console.log(`Usage: npm run bench -- <words> [options]

  npm run bench -- transformers                        those whose path holds the word
  npm run bench -- up publish                          ... and both words
  npm run bench -- all
  npm run bench -- control-plane --things 100000       options are the benchmark's own, where the words name a single one
  npm run bench -- control-plane --help                ... which this prints, from its first comment
`)
  for (const path of all) console.log(`  ${path}`)
  process.exit(wantsHelp ? 0 : 2)
}
const chosen = words.length === 1 && words[0] === 'all' ? all : all.filter(path => words.every(word => path.includes(word)))
if (chosen.length === 0) {
  console.error(`no benchmark has ${words.join(' and ')} in its path; there are:\n  ${all.join('\n  ')}`)
  process.exit(2)
}
if (options.length > 0 && chosen.length > 1) {
  console.error(`options are for a single benchmark, and these have ${words.join(' and ')} in their path:\n  ${chosen.join('\n  ')}`)
  process.exit(2)
}
if (wantsHelp) {
  const source = await readFile(join(folder, chosen[0]!), 'utf8')
  console.log(source.slice(0, source.search(/^(?!\/\/)/m)).replaceAll(/^\/\/ ?/gm, ''))
  process.exit()
}
for (const path of chosen) {
  console.log(`\n${path}`)
  const child = spawn(process.execPath, ['--expose-gc', `${folder}${path}`, ...options], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) process.exitCode = 1
}
