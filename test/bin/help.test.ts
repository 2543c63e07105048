// The help of the tools: reachable from the top, and with an example for every command.

import { expect, test } from 'vitest'
import { outputOf, sluice } from './command.ts'

const commands = {
  senml: ['resolve', 'validate', 'to-cbor', 'to-json'],
  json: ['transform', 'flatten', 'unflatten'],
}

test('sluice --help names the tools, and each of them its commands', async () => {
  const help = (await outputOf(['--help'])).toString()
  for (const [tool, names] of Object.entries(commands)) {
    expect(help).toMatch(new RegExp(`^  ${tool} `, 'm'))
    const toolHelp = (await outputOf([tool, '--help'])).toString()
    expect([...toolHelp.matchAll(/^ {2}([a-z-]+) .*\[file\]/gm)].map(match => match[1])).toEqual(names)
    expect((await outputOf(['help', tool])).toString()).toBe(toolHelp)
  }
})

test.each(Object.entries(commands).flatMap(([tool, names]) => names.map(name => [tool, name])))(
  'sluice %s %s --help shows an example',
  async (tool, name) => {
    const help = (await outputOf([tool, name, '--help'])).toString()
    const [, examples] = help.split(/^Examples?:$/m)
    expect(examples).toContain(`./sluice ${tool} ${name}`)
  },
)

test('a tool without a command shows its help and fails', async () => {
  const { code, errors } = await sluice(['senml'])
  expect(code).toBe(1)
  expect(errors).toMatch(/^Usage: \.\/sluice senml/)
})
