// Takes the pictures in docs/images/console: views of the console, light and dark, on a new platform under load. Run it by hand after a change of a view.

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { root } from '../tidy/files.ts'
import { call, expectStatus } from '../up/operator.ts'
import { administrator, disposableFolder, startPlatform } from '../up/platform.ts'
import { openBrowser, visit } from './visitor.ts'

const folder = join(root, 'docs/images/console')
const names = [
  'weather station',
  'energy meter',
  'pump',
  'gate',
  'boiler',
  'tank level',
  'fan, north',
  'fan, south',
  'soil probe 1',
  'soil probe 2',
]
const publishMs = 1000
const loadMs = 25_000

await using data = await disposableFolder()
const environment = { SVC_ADMIN_EMAIL: administrator.email, SVC_ADMIN_PASSWORD: administrator.password }
const platform = await startPlatform({ data: data.path, arguments: ['--demo'], environment })
const browser = await openBrowser()
try {
  await mkdir(folder, { recursive: true })
  const farm = await makeFarm(platform.url)
  const publishing = setInterval(() => void farm.publish(), publishMs)
  const hash = {
    thing: `#/things/${farm.thing}`,
    live: `#/live/${farm.channel}`,
    explorer: `#/explorer/${farm.channel}`,
    letter: `#/dead-letters/${await farm.letter()}`,
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    await using visitor = await visit(browser, platform.url, { colorScheme, viewport: { width: 1200, height: 1000 } })
    const { page } = visitor
    const take = (name: string) => page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) })
    await visitor.signIn(administrator)
    await visitor.go('#/break')
    await press(page, 'Start a load')
    await page.waitForTimeout(loadMs / 2)
    await press(page, 'Cut the store')
    await page.getByText('store: ▲ away').waitFor()
    await page.getByText('store: ● there').waitFor()
    await press(page, 'Run verify')
    await page.getByText('Each message is stored exactly once, or a dead letter').waitFor()
    await page.waitForTimeout(loadMs / 5)
    await take('break')
    await visitor.go('#/overview')
    await page.waitForTimeout(loadMs)
    await take('overview')
    await visitor.go('#/break')
    await press(page, 'Stop the load')
    await visitor.go('#/things')
    await page.getByLabel('Tick pump').check()
    await page.getByLabel('Tick gate').check()
    await take('things')
    await visitor.go(hash.thing)
    await press(page, 'Check connectivity')
    await page.locator('.arrivals .state.good').first().waitFor()
    await page.locator('.arrivals').scrollIntoViewIfNeeded()
    await take('connectivity')
    await visitor.go(hash.live)
    await page.getByText('following').waitFor()
    await page.getByLabel('Length of the range').selectOption('10 min')
    await page.getByText('stored points').waitFor()
    await page.waitForTimeout(loadMs / 2)
    await take('live')
    await visitor.go(hash.explorer)
    await page.getByLabel('limit').fill('5')
    await page.getByRole('button', { name: 'Read', exact: true }).click()
    await page.getByRole('table').scrollIntoViewIfNeeded()
    await take('explorer')
    await visitor.go('#/dead-letters')
    await page.getByRole('link', { name: 'greenhouse' }).first().waitFor()
    await take('dead-letters')
    await visitor.go(hash.letter)
    await press(page, 'Replay')
    await page.getByText('would stay open').waitFor()
    await take('replay')
  }
  clearInterval(publishing)
} finally {
  await browser.close()
  await platform.stop()
}

async function press(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name }).first().click()
}

/** Things that publish to the channel `greenhouse`, some of them nonsense. */
async function makeFarm(url: string) {
  const { json } = await expectStatus(call(url, 'POST', '/tokens', { body: administrator }), 201)
  const authorization = `Bearer ${String(json!['token'])}`
  const make = async (kind: 'things' | 'channels', names: readonly string[]) => {
    const answer = await expectStatus(call(url, 'POST', `/${kind}/bulk`, { authorization, body: names.map(name => ({ name })) }), 201)
    return answer.json![kind] as { id: string; key: string }[]
  }
  const [things, channels] = [await make('things', names), await make('channels', ['greenhouse', 'workshop'])]
  const body = { thing_ids: things.map(({ id }) => id), channel_ids: [channels[0]!.id] }
  await expectStatus(call(url, 'POST', '/connect', { authorization, body }), 200)
  const publish = (from: number, subtopic: string, pack: object) =>
    expectStatus(
      call(url, 'POST', `/channels/${channels[0]!.id}/messages/${subtopic}`, {
        authorization: `Thing ${things[from]!.key}`,
        type: 'application/senml+json',
        body: pack,
      }),
      202,
    )
  let round = 0
  return {
    thing: things[0]!.id,
    channel: channels[0]!.id,
    async publish() {
      round++
      const about = (middle: number, swing: number) => Number((middle + swing * Math.sin(round / 5)).toFixed(1))
      await publish(0, 'roof', [
        { bn: 'weather:', n: 'temperature', u: 'Cel', v: about(18, 4) },
        { n: 'humidity', u: '%RH', v: about(61, 9) },
      ])
      await publish(2, 'well', [{ n: 'pump:running', vb: round % 4 !== 3 }])
    },
    /** The id of a dead letter. */
    async letter() {
      await publish(1, 'hall', [{ n: 'power', u: 'W', v: 7400, vs: 'seven kilowatts' }])
      await publish(3, 'yard', [{ n: 'gate state', vs: 'open' }])
      const { json } = await publish(3, 'yard', [{ n: 'opened', v: 3, t: 'yesterday' }])
      return String(json!['id'])
    },
  }
}
