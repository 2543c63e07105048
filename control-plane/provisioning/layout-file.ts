// The layout file (SPEC §2, provisioning layout): its schema, and how it becomes a layout.

import { type Static, Type } from 'typebox'
import { type OptionFile, OptionFileError, placeInFile, readOptionFile } from '../../config/options/file.ts'
import { loadOptions, type OptionFault, OptionsError } from '../../config/options/options.ts'
import type { Compatibility } from '../../http/older-clients.ts'
import { parseJsonText } from '../../http/requests/json-body.ts'
import { rsaBits } from '../certificates/csr.ts'
import { parseDuration } from '../certificates/request.ts'
import { nameBytesMax } from '../entity.ts'
import { idSchema, toChannelId } from '../ids.ts'
import { textFault } from '../requests/text.ts'
import { contentFaults, nameFaults, plainFaults, type TreeFault } from './content.ts'
import { defaultLayout, type Layout } from './layout.ts'
import { fileOfToday, type Notes, olderPathVariable, olderVariables } from './older-names.ts'

const entitiesMax = 100
const certificateSecondsMin = 60
/** A hundred years: anything longer is a typing error. */
const certificateSecondsMax = 876_000 * 3_600

const tree = (description: string) => Type.Record(Type.String(), Type.Unknown(), { default: {}, description })

const named = { name: Type.String({ default: '' }), metadata: tree('A JSON object.') }
const listOf = (defaults: Layout['things'] | Layout['channels'], minItems: number) => ({
  default: defaults.map(({ name, metadata }) => ({ name, metadata })),
  minItems,
  maxItems: entitiesMax,
})

/** Settings that variables can also set. Variables take precedence; older ones apply only if the file does not have the setting. */
const settings = {
  svcUser: Type.Optional(Type.String({ environment: 'MF_PROVISION_USER' })),
  svcPass: Type.Optional(Type.String({ secret: true, environment: 'MF_PROVISION_PASS' })),
  apiKey: Type.Optional(Type.String({ secret: true, environment: 'MF_PROVISION_API_KEY' })),
  open: Type.Optional(Type.Boolean()),
  externalKeyBytesMin: Type.Optional(Type.Integer({ minimum: 1, maximum: 256 })),
}

const layoutSchema = Type.Object({
  ...settings,
  bootstrap: Type.Object({
    provision: Type.Boolean({ default: true, environment: 'MF_PROVISION_BS_CONFIG_PROVISIONING' }),
    autowhiteList: Type.Boolean({ default: true, environment: 'MF_PROVISION_BS_AUTO_WHITELIST' }),
    x509Provision: Type.Boolean({ default: false, environment: 'MF_PROVISION_X509_PROVISIONING' }),
    content: Type.Optional(
      Type.Union([Type.Literal(''), Type.Record(Type.String(), Type.Unknown())], {
        // It may contain passwords of the operator.
        secret: true,
        flag: 'MF_PROVISION_BS_CONTENT',
        allowed: 'a table, [bootstrap.content], or "" for none',
      }),
    ),
  }),
  cert: Type.Object({
    ttl: Type.String({ default: `${defaultLayout.certificate.ttlSeconds / 3_600}h`, environment: 'MF_PROVISION_CERTS_HOURS_VALID' }),
    keyBits: Type.Optional(Type.Integer({ environment: 'MF_PROVISION_CERTS_RSA_BITS' })),
    keyType: Type.Optional(Type.String()),
  }),
  things: Type.Array(Type.Object(named), listOf(defaultLayout.things, 1)),
  channels: Type.Array(
    Type.Object({ ...named, id: Type.Optional(idSchema('channel', 'Of a channel that exists.')) }),
    listOf(defaultLayout.channels, 0),
  ),
})
type LayoutOptions = Static<typeof layoutSchema>

export interface LayoutFile {
  readonly layout: Layout
  readonly settings: Pick<LayoutOptions, keyof typeof settings>
  /** A sentence for each older name, and for channels that the edge agent would mix up. */
  readonly warnings: readonly string[]
}

/**
 * Reads the layout file; without one, the default layout.
 *
 * @param environment for the variables of release 0.13 alone
 * @throws OptionsError with every fault: names and types first, then contradictions between them
 */
export function readLayout(
  path: string | undefined,
  { compatibility, environment }: { compatibility: Compatibility; environment: Readonly<Record<string, string | undefined>> },
): LayoutFile {
  const notes: Notes = { warnings: [], faults: [] }
  const older = compatibility === '0.13' ? environment[olderPathVariable] || undefined : undefined
  const place = path ?? older ?? 'the default layout'
  const read = path ?? older
  const file = fileOfToday(place, read === undefined ? noFile : readFile(read), compatibility, notes)
  const { MF_PROVISION_BS_CONTENT: contentText, ...variables } = olderVariables(environment, file, compatibility, notes)
  const content = contentText === undefined ? undefined : parseContent(contentText, notes.faults)
  if (notes.faults.length > 0) throw new OptionsError(notes.faults)
  const options = loadOptions(layoutSchema, {
    parsed: { path: place, file },
    environment: variables,
    overrides: { bootstrap: { content } },
  })
  const layout = layoutOf(options, placeInFile.bind(undefined, place, file))
  return { layout, settings: options, warnings: [...notes.warnings, ...agentWarnings(layout, place)] }
}

const noFile: OptionFile = { values: {}, lineOf: () => undefined }

function readFile(path: string): OptionFile {
  try {
    return readOptionFile(path)
  } catch (error) {
    if (!(error instanceof OptionFileError)) throw error
    throw new OptionsError([{ place: `${error.place} (SVC_PROVISION_CONFIG_PATH)`, problem: error.message }])
  }
}

function parseContent(text: string, faults: OptionFault[]): unknown {
  try {
    return parseJsonText(text)
  } catch {
    // Without the parser's message, which quotes the text.
    faults.push({ place: 'MF_PROVISION_BS_CONTENT', problem: 'is not JSON: give an object' })
    return undefined
  }
}

/** @throws OptionsError */
function layoutOf({ things, channels: listed, bootstrap, cert }: LayoutOptions, placeOf: (keys: readonly string[]) => string): Layout {
  const faults: OptionFault[] = []
  const note = (keys: readonly string[], problem: string): number =>
    faults.push({ place: placeOf(keys), problem: `${keys.join('.')} ${problem}` })
  const noteTree = (above: readonly string[], found: readonly TreeFault[]): void =>
    found.forEach(({ keys, problem }) => note([...above, ...keys], problem))

  const channels: Layout['channels'] = listed.map(({ id, ...channel }) =>
    id === undefined ? channel : { ...channel, id: toChannelId(id) },
  )
  for (const [kind, list] of Object.entries({ things, channels })) {
    for (const [index, { name, metadata }] of list.entries()) {
      const above = [kind, String(index)]
      const problem = textFault(name, nameBytesMax)
      if (problem !== undefined) note([...above, 'name'], problem)
      noteTree(above, nameFaults(name))
      noteTree([...above, 'metadata'], plainFaults(metadata))
    }
  }
  for (const [at, { id, name }] of channels.entries()) {
    const first = channels.findIndex(other => other.id === id)
    if (id !== undefined && first < at) note(['channels', String(at), 'id'], `is that of channels.${first} too: remove one`)
    if (id !== undefined && name !== '') note(['channels', String(at), 'name'], 'is that of a channel that exists: remove it, or the id')
  }
  const external = [...things.keys()].filter(index => Object.hasOwn(things[index]!.metadata, 'external_id'))
  if (external.length > 1) {
    note(['things', String(external[1])], `contains external_id, but things.${external[0]} does too: only one thing can have it`)
  } else if (external.length === 0 && bootstrap.provision) {
    note(['things'], 'has no thing with external_id in its metadata: give it to one, or set bootstrap.provision = false')
  }
  const content = typeof bootstrap.content === 'object' && Object.keys(bootstrap.content).length > 0 ? bootstrap.content : undefined
  const layout: Layout = {
    things: things.map((thing, index) => ({ ...thing, isExternal: index === external[0] })),
    channels,
    bootstrap: {
      isProvisioned: bootstrap.provision,
      isWhitelisted: bootstrap.autowhiteList,
      hasCertificates: bootstrap.x509Provision,
      ...(content === undefined ? {} : { content }),
    },
    certificate: certificateOf(cert, note),
  }
  if (content !== undefined) noteTree(['bootstrap', 'content'], contentFaults(content, layout))
  if (faults.length > 0) throw new OptionsError(faults)
  return layout
}

function certificateOf(
  { ttl, keyBits, keyType }: LayoutOptions['cert'],
  note: (keys: string[], problem: string) => void,
): Layout['certificate'] {
  // Bare digits are seconds, as in a request for a certificate.
  const ttlSeconds = parseDuration(ttl, 's')
  if (ttlSeconds === undefined || ttlSeconds < certificateSecondsMin || ttlSeconds > certificateSecondsMax) {
    note(['cert', 'ttl'], `is ${JSON.stringify(ttl)}: give a duration such as 2400h, from 1m to ${certificateSecondsMax / 3_600}h`)
  }
  // Bits without a type are those of RSA: a file of release 0.13 needs no type.
  const type = keyType?.toLowerCase() ?? (keyBits === undefined ? 'ec' : 'rsa')
  if (type !== 'rsa' && type !== 'ec') note(['cert', 'key_type'], `is ${JSON.stringify(keyType)}: give rsa or ec`)
  const bits = rsaBits.find(bits => bits === (keyBits ?? defaultLayout.certificate.rsaBits))
  if (bits === undefined && type !== 'ec') note(['cert', 'key_bits'], `is ${keyBits}: give one of ${rsaBits.join(', ')}`)
  return { ttlSeconds: ttlSeconds ?? 0, keyType: type === 'ec' ? 'ec' : 'rsa', rsaBits: bits ?? defaultLayout.certificate.rsaBits }
}

/** Agents take the first channel as control and the second as data, whatever their types, except that they swap `data` and `control`. */
function agentWarnings({ channels, bootstrap: { content } }: Layout, place: string): string[] {
  if (!Object.hasOwn(content ?? {}, 'agent')) return []
  const [first, second] = channels.map(({ metadata }) => metadata['type'])
  if ((first === 'control' && second === 'data') || (first === 'data' && second === 'control')) return []
  return [
    `${place}: bootstrap.content has the section agent, and edge agents take the first two channels as control and data: put those of type control and data first`,
  ]
}
