// Takes the pictures in docs/images/console: every view, empty and full, light and dark, 1,440 and 390 pixels wide. Run it by hand after a change of
// a view, for all or for those that are named: node test/console/pictures.ts live account

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { root } from '../tidy/files.ts'
import { call, expectStatus } from '../up/operator.ts'
import { administrator, disposableFolder, startPlatform } from '../up/platform.ts'
import { openBrowser, type Visitor, visit } from './visitor.ts'

const pictures = join(root, 'docs/images/console')
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
/** How long charts fill before they are taken. */
const loadMs = 40_000
/** Of the views that are named, or of all. */
const asked = process.argv.slice(2)
/** A busy machine verifies for long. */
const waitMsMax = 120_000
const sizes = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
]

/** A view: its name, its address, and what to do there before the picture. */
type Shown = readonly [name: string, hash: string, prepare?: (page: Page, visitor: Visitor) => Promise<void>]

await using data = await disposableFolder()
const environment = { SVC_ADMIN_EMAIL: administrator.email, SVC_ADMIN_PASSWORD: administrator.password }
const platform = await startPlatform({ data: data.path, arguments: ['--demo'], environment })
const browser = await openBrowser()
let publishing: NodeJS.Timeout | undefined
try {
  await takeAll(browser, 'empty', [
    ['overview', '#/overview', page => page.getByText('Three steps').waitFor()],
    ['things', '#/things', page => page.getByText('A thing is a device').waitFor()],
    ['channels', '#/channels', page => page.getByText('A channel is what').waitFor()],
    ['fleet', '#/fleet', page => page.getByText('A board shows series').waitFor()],
    ['live', '#/live', page => page.getByText('Messages are read by channel').waitFor()],
    ['dead-letters', '#/dead-letters', page => page.getByText('None is open').waitFor()],
    ['break', '#/break', page => page.getByText('adds up').waitFor()],
  ])

  const farm = await makeFarm(platform.url)
  publishing = setInterval(() => void farm.publish().catch(console.error), publishMs)
  await using chief = await visit(browser, platform.url)
  await chief.signIn(administrator)
  await chief.go('#/break')
  await press(chief.page, 'Start a load')
  await chief.page.waitForTimeout(loadMs)
  await takeAll(browser, 'full', [
    ['overview', '#/overview', page => page.waitForTimeout(loadMs)],
    [
      'things',
      '#/things',
      async page => {
        await page.getByLabel('Select pump').check()
        await page.getByLabel('Select gate').check()
      },
    ],
    [
      'connectivity',
      `#/things/${farm.thing}`,
      async page => {
        await page.locator('.arrivals .state.good').first().waitFor()
        await page.getByRole('img', { name: 'Chart of' }).first().waitFor()
      },
    ],
    ['create', '#/things', page => press(page, 'Create things')],
    ['channel', `#/channels/${farm.channel}`, page => page.getByRole('link', { name: 'pump' }).waitFor()],
    [
      'fleet',
      `#/live/${farm.channel}`,
      async (page, visitor) => {
        for (const name of ['weather:temperature', 'weather:humidity', 'pump:running']) await press(page, `Add ${name} to Fleet`)
        await visitor.go('#/fleet')
        await page.getByRole('img', { name: 'The last hour' }).nth(1).waitFor()
      },
    ],
    [
      'live',
      `#/live/${farm.channel}`,
      async page => {
        await page.getByLabel('Length of the range').selectOption('1 min')
        await page.getByText('stored points').waitFor()
        await page.waitForTimeout(publishMs * 5)
      },
    ],
    [
      'explorer',
      `#/explorer/${farm.channel}`,
      async page => {
        await page.getByLabel('limit').fill('5')
        await page.getByRole('button', { name: 'Read', exact: true }).click()
        await page.getByText('5 records of').scrollIntoViewIfNeeded()
      },
    ],
    ['dead-letters', '#/dead-letters', page => page.getByRole('link', { name: 'greenhouse' }).first().waitFor()],
    [
      'replay',
      `#/dead-letters/${await farm.letter()}`,
      async page => {
        await press(page, 'Replay')
        await page.getByText('would stay open').waitFor()
      },
    ],
    [
      'break',
      '#/break',
      async page => {
        await press(page, 'Cut the store')
        await page.getByText('All works again after').waitFor()
        await page.getByText('Each message is stored exactly once').waitFor()
      },
    ],
    [
      'search',
      '#/things',
      async page => {
        await page.keyboard.press('/')
        await page.getByRole('combobox', { name: 'Search' }).fill('pump')
        await page.getByRole('listbox').getByRole('option').first().waitFor()
      },
    ],
    ['account', '#/things', (_, visitor) => visitor.inAccount()],
  ])
} finally {
  clearInterval(publishing)
  await browser.close()
  await platform.stop()
}

async function takeAll(browser: Browser, state: string, shown: readonly Shown[]): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const viewport of sizes) {
      await using visitor = await visit(browser, platform.url, { colorScheme, viewport })
      const { page } = visitor
      page.setDefaultTimeout(waitMsMax)
      const folder = join(pictures, state, `${viewport.width}-${colorScheme}`)
      await mkdir(folder, { recursive: true })
      const devtools = await page.context().newCDPSession(page)
      const take = async (name: string): Promise<void> => {
        const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: 80 })
        await writeFile(join(folder, `${name}.webp`), Buffer.from(data, 'base64'))
      }
      if (state === 'empty' && isAsked('sign-in')) await take('sign-in')
      await visitor.signIn(administrator)
      for (const [name, hash, prepare] of shown.filter(([name]) => isAsked(name))) {
        // Of the view before: another view begins without its dialogs.
        await visitor.go('#/none')
        await visitor.go(hash)
        await prepare?.(page, visitor)
        await take(name)
      }
    }
  }
}

function isAsked(name: string): boolean {
  return asked.length === 0 || asked.includes(name)
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
