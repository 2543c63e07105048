// Draws docs/images/tour.svg: the README's tour in a terminal, run against a new platform. Run it by hand after a change of the tour.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Block, extractBlocks, runBlocks } from './blocks.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const shownUrl = 'http://127.0.0.1:8080'
/** The first blocks make a token, a thing and a channel: they run, and are left out of the picture. */
const firstShown = 2
const columns = 120
const size = { font: 14, line: 19, character: 8.43, margin: 20, bar: 34 }
const colors = { background: '#1b1f27', bar: '#2a303b', prompt: '#7ec699', command: '#f2f2f2', output: '#a9b4c2' }

interface Line {
  readonly text: string
  readonly color: string
}

/** A copy of each command of a block; a line that ends with a backslash continues in the next one. */
function commandsOf(block: Block): Block[] {
  return block.text.split(/(?<!\\)\n/).map(text => ({ ...block, text }))
}

/** As a terminal breaks lines that are too long. */
function wrapped(text: string, color: string): Line[] {
  return text.split('\n').flatMap(line => (line.match(new RegExp(`.{1,${columns}}`, 'gu')) ?? ['']).map(text => ({ text, color })))
}

function shown(command: string, output: string): Line[] {
  return [...wrapped(`$ ${command}`, colors.command), ...(output.trim() === '' ? [] : wrapped(output.trim(), colors.output))]
}

function drawn(lines: readonly Line[]): string {
  const width = Math.round(columns * size.character + 2 * size.margin)
  const height = lines.length * size.line + size.bar + 2 * size.margin
  const escaped = (text: string): string => text.replace(/[&<>]/g, one => `&#${one.charCodeAt(0)};`)
  const texts = lines.map(({ text, color }, at) => {
    const prompt = text.startsWith('$ ') && color === colors.command
    const rest = escaped(prompt ? text.slice(2) : text)
    const y = size.bar + size.margin + (at + 0.75) * size.line
    return `<text x="${size.margin}" y="${y}" fill="${color}">${prompt ? `<tspan fill="${colors.prompt}">$ </tspan>` : ''}${rest}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="${size.font}" xml:space="preserve">
<rect width="100%" height="100%" rx="8" fill="${colors.background}"/>
<path d="M0 ${size.bar}V8a8 8 0 0 1 8-8h${width - 16}a8 8 0 0 1 8 8v${size.bar - 8}z" fill="${colors.bar}"/>
${['#e06c75', '#e5c07b', '#98c379'].map((fill, at) => `<circle cx="${20 + 20 * at}" cy="17" r="6" fill="${fill}"/>`).join('')}
${texts.join('\n')}
</svg>
`
}

/** Starts the platform on a free port, in a folder like a checkout. */
async function start(folder: string): Promise<{ url: string; printed: string; stop(): Promise<unknown> }> {
  await symlink(join(root, 'sluice'), join(folder, 'sluice'))
  const child = spawn('./sluice', ['up', '--port', '0'], {
    cwd: folder,
    env: { ...process.env, SVC_MQTT_PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const exit = once(child, 'exit')
  let printed = ''
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += String(chunk)
    const [, url] = /^ready on (\S+)$/m.exec(printed) ?? []
    if (url !== undefined) return { url, printed: printed.replaceAll(url, shownUrl), stop: () => (child.kill(), exit) }
  }
  throw new Error(`the platform ended before it was ready:\n${printed}`)
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-picture-'))
const platform = await start(folder)
try {
  const blocks = extractBlocks(await readFile(join(root, 'README.md'), 'utf8'), 'tour')
  const commands = blocks.map(commandsOf)
  const outputs = await runBlocks(commands.flat(), { cwd: folder, replace: { [shownUrl]: platform.url } })
  const skipped = commands.slice(0, firstShown).flat().length
  const start = platform.printed.replaceAll(`${folder}/`, '').replace(/^\{.*\n/gm, '')
  const lines = [
    ...shown('./sluice up', start),
    { text: '', color: colors.output },
    ...commands.flat().flatMap(({ text }, at) => (at < skipped ? [] : shown(text, outputs[at]!.replaceAll(platform.url, shownUrl)))),
  ]
  await writeFile(join(root, 'docs/images/tour.svg'), drawn(lines))
} finally {
  await platform.stop()
  await rm(folder, { recursive: true, force: true })
}
