// The help of the tools for a running platform, and options that they refuse before any request.

import { expect, test } from 'vitest'
import { outputOf, sluice } from '../../bin/command.ts'

const commands = ['dlq ls', 'dlq show', 'dlq replay', 'dlq drop', 'verify', 'trace', 'provision']

test('sluice --help names the tools', async () => {
  const help = (await outputOf(['--help'])).toString()
  for (const tool of ['doctor', 'send', 'tail', 'dlq', 'verify', 'trace', 'copy', 'bench', 'logs', 'policies', 'secrets', 'provision'])
    expect(help).toMatch(new RegExp(`^  ${tool} `, 'm'))
})

test.each(commands)('sluice %s --help shows an example, and how to reach a running platform', async name => {
  const help = (await outputOf([...name.split(' '), '--help'])).toString()
  const [, examples] = help.split(/^Examples?:$/m)
  expect(examples).toContain(`./sluice ${name}`)
  expect(help).toMatch(/--url <url>/)
  expect(help).toMatch(/SVC_TOKEN/)
  expect(help).not.toContain('[]')
})

test.each(['doctor', 'send', 'tail', 'bench load', 'bench check', 'logs', 'copy', 'policies repair', 'secrets rotate', 'secrets generate'])(
  'sluice %s --help shows an example',
  async name => {
    const help = (await outputOf([...name.split(' '), '--help'])).toString()
    expect(help.split(/^Examples?:$/m)[1]).toContain(`./sluice ${name}`)
  },
)

test.each([
  [['policies', 'repair'], 1, /^no control plane given: use --data <folder>/],
  [['policies', 'repair', '--data', '/nowhere'], 1, /^\/nowhere is not the data folder of a `\.\/sluice up`/],
  [['secrets', 'rotate'], 1, /^no control plane given: use --data <folder>/],
  [['secrets', 'rotate', '--data', '/nowhere'], 1, /^\/nowhere is not the data folder of a `\.\/sluice up`/],
  [['dlq', 'show', 'nonsense'], 1, /Give <log>-<partition>-<offset>/],
  [['dlq', 'ls', '--limit', '0'], 1, /Give a whole number from 1 to 1000/],
  [['dlq', 'drop'], 1, /no dead letters selected to drop/],
  [['dlq', 'replay', '1-0-1', 'nonsense', '--url', 'http://127.0.0.1:9', '--token', 'x'], 1, /Give <log>/],
  [['dlq', 'ls', '--url', 'nonsense', '--token', 'x'], 1, /--url "nonsense" is not a valid address/],
  [['dlq', 'ls', '--url', 'http://127.0.0.1:8080'], 1, /needs the token of an administrator/],
  [['copy', 'relational'], 2, /missing required argument 'target'/],
  [['copy', 'relational', 'graph'], 2, /^unknown store "graph": the stores are relational/],
  [['dlq', 'ls', '--store', 'graph'], 1, /unknown store "graph": the stores are relational/],
  [['dlq', 'drop', '1-0-1', '--all'], 1, /^give either ids of dead letters to drop, or --all\n$/],
  [['dlq', 'replay', '1-0-1', '--all', '--url', 'http://127.0.0.1:9', '--token', 'x'], 1, /^give either ids .* or --all\n$/],
  [['bench', 'load'], 2, /required option '--ledger <file>' not specified/],
  [['bench', 'load', '--ledger', 'x', '--mix', 'record-xml'], 2, /^--mix takes kinds with weights, .* the kinds are record-senml, /],
  [['bench', 'load', '--ledger', 'x', '--invalid', '101%'], 2, /Give a percentage, as in 1%/],
  [['bench', 'load', '--ledger', 'x', '--interval', '0.01', '--devices', '20000'], 2, /^no two messages can have the same microsecond/],
  [['bench', 'load', '--ledger', 'x', '--to', 'mqtt://127.0.0.1'], 2, /needs the address of the control plane: give it with --url\n$/],
  [['bench', 'load', '--ledger', 'x', '--to', 'http://127.0.0.1'], 2, /needs the token of a user/],
  [['bench', 'check', 'relational', '--ledger', '/nowhere'], 2, /^the ledger "\/nowhere" cannot be read \(ENOENT/],
  [['bench', 'check', 'graph', '--ledger', 'x'], 2, /unknown store "graph"/],
  [['bench', 'check', 'document', '--ledger', 'x', '--data', 'x'], 2, /^a data folder has a relational store, but no document one/],
  [['send', 'absent.json', '--channel', 'c1'], 2, /^file not found: "absent\.json"\n$/],
  [['send', '--lines', '--csv'], 2, /^give either --lines or --csv\n$/],
  [['send', '--mqtt', 'http://127.0.0.1', '--key', 'k'], 2, /^"http:\/\/127\.0\.0\.1" is not an address for MQTT/],
  [['send', '--mqtt', 'mqtt://127.0.0.1', '--topic', 'other'], 2, /^--mqtt has no --topic/],
  [['send', '--rate', '0'], 2, /Give messages per second, from 0\.01 to 1000000/],
  [['send', '--store', 'graph'], 2, /unknown store "graph"/],
  [['tail', '--count', '0'], 2, /Give a whole number from 1 to 999999999/],
  [['tail', '--last', '5', '--from-beginning'], 2, /'--last <n>' cannot be used with option '--from-beginning'/],
  [['tail', '--subtopic', 'room.>.x'], 2, /^--subtopic: the subject "channels\.\*\.room\.>\.x" has a ">" before its end/],
  [['trace', 'nonsense'], 2, /is not a message id/],
  [['trace'], 2, /missing required argument/],
  [['verify'], 2, /missing required argument/],
  [['provision'], 1, /missing required argument/],
  [['provision', 'absent.csv'], 1, /^file not found: "absent\.csv"\n$/],
  [['provision', 'fleet.csv', '--url', 'nonsense'], 1, /--url "nonsense" is not a valid address/],
  [['provision', 'fleet.csv', '--token', 'a b'], 1, /^--token is not a token/],
  [['provision', 'fleet.csv', '--concurrency', '101'], 1, /Give a whole number from 1 to 100/],
  // Without `--url`, where `./sluice up` runs.
  [['verify', 'relational'], 2, /store is missing: .*, or give --url for a running `\.\/sluice up`\n$/],
  [['verify', 'graph'], 2, /unknown store "graph"/],
  [['logs', 'graph'], 1, /unknown store "graph"/],
  [['logs', 'relational', '--free', '128'], 1, /Give the number of a log, from 1 to 127/],
] as const)('%j ends with %i and an error', async (words, code, says) => {
  const ended = await sluice(words)
  expect([ended.code, ended.output.length]).toEqual([code, 0])
  expect(ended.errors).toMatch(says)
  expect(ended.errors).not.toMatch(/^\s+at /m)
})

test('dlq without its brokers says how to reach a running platform', async () => {
  const ended = await sluice(['dlq', 'ls'], '', { SVC_LOG_BROKERS: '127.0.0.1:1' })
  expect([ended.code, ended.errors]).toEqual([
    1,
    expect.stringMatching(/check the brokers, or give --url for a running `\.\/sluice up`\n$/),
  ])
})
