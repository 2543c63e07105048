// The help of the tools that work on a running platform, and what they refuse before they ask anything.

import { expect, test } from 'vitest'
import { outputOf, sluice } from '../../bin/command.ts'

const commands = ['dlq ls', 'dlq show', 'dlq replay', 'dlq drop', 'verify', 'trace', 'provision']

test('sluice --help names the tools', async () => {
  const help = (await outputOf(['--help'])).toString()
  for (const tool of ['dlq', 'verify', 'trace', 'policies', 'secrets', 'provision']) expect(help).toMatch(new RegExp(`^  ${tool} `, 'm'))
})

test.each(commands)('sluice %s --help shows an example of it, and says how a running platform is asked', async name => {
  const help = (await outputOf([...name.split(' '), '--help'])).toString()
  const [, examples] = help.split(/^Examples?:$/m)
  expect(examples).toContain(`sluice ${name}`)
  expect(help).toMatch(/--url <url>/)
  expect(help).toMatch(/SVC_TOKEN/)
})

test.each(['policies repair', 'secrets rotate', 'secrets generate'])('sluice %s --help shows an example of it', async name => {
  const help = (await outputOf([...name.split(' '), '--help'])).toString()
  expect(help.split(/^Examples?:$/m)[1]).toContain(`sluice ${name}`)
})

test.each([
  [['policies', 'repair'], 1, /^say which control plane: with --data <folder>/],
  [['policies', 'repair', '--before', '2026-11-01T00:00:00'], 1, /Give an instant with its time zone/],
  [['policies', 'repair', '--data', '/nowhere'], 1, /^no data of a `sluice up` in \/nowhere/],
  [['secrets', 'rotate'], 1, /^say which control plane: with --data <folder>/],
  [['secrets', 'rotate', '--data', '/nowhere'], 1, /^no data of a `sluice up` in \/nowhere/],
  [['dlq', 'show', 'nonsense'], 1, /Give <log>-<partition>-<offset>/],
  [['dlq', 'ls', '--limit', '0'], 1, /Give a whole number from 1 to 1000/],
  [['dlq', 'drop'], 1, /say which dead letters to drop/],
  [['dlq', 'replay', '1-0-1', 'nonsense', '--url', 'http://127.0.0.1:9', '--token', 'x'], 1, /Give <log>/],
  [['dlq', 'ls', '--url', 'nonsense', '--token', 'x'], 1, /--url "nonsense" is none/],
  [['dlq', 'ls', '--url', 'http://127.0.0.1:8080'], 1, /needs the token of an administrator/],
  [['dlq', 'ls', '--store', 'graph'], 1, /there is no store "graph": the stores are relational/],
  [['dlq', 'drop', '1-0-1', '--all'], 1, /^give the ids of dead letters to drop, or --all\n$/],
  [['dlq', 'replay', '1-0-1', '--all', '--url', 'http://127.0.0.1:9', '--token', 'x'], 1, /^give the ids .* or --all\n$/],
  [['trace', 'nonsense'], 2, /no id of a message/],
  [['trace'], 2, /missing required argument/],
  [['verify'], 2, /missing required argument/],
  [['provision'], 1, /missing required argument/],
  [['provision', 'absent.csv'], 1, /^there is no file "absent\.csv"\n$/],
  [['provision', 'fleet.csv', '--url', 'nonsense'], 1, /--url "nonsense" is none/],
  [['provision', 'fleet.csv', '--token', 'a b'], 1, /^--token is no token/],
  [['provision', 'fleet.csv', '--concurrency', '101'], 1, /Give a whole number from 1 to 100/],
  [['verify', 'graph'], 2, /there is no store "graph"/],
] as const)('%j ends with %i and a sentence', async (words, code, says) => {
  const ended = await sluice(words)
  expect([ended.code, ended.output.length]).toEqual([code, 0])
  expect(ended.errors).toMatch(says)
  expect(ended.errors).not.toMatch(/^\s+at /m)
})
