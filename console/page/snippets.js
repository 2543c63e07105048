// Commands and programs that publish one message as a thing, over HTTP and MQTT, in SenML and in JSON. One subscribes.

/** @typedef {keyof typeof programs} Language */
/** @typedef {keyof typeof payloads} Format */
/** @typedef {{ host: string, port: string, isTls: boolean }} Broker */
/** @typedef {{ url: string, key: string, type: string, text: string, broker: Broker | undefined, thing: string, topic: string, channel: string }} Publication */

export const payloads = {
  SenML: { type: 'application/senml+json', path: '', text: '[{"bn":"sensor:","n":"temperature","u":"Cel","v":21.5}]' },
  // The last part of the subtopic is the format under which it is read.
  JSON: { type: 'application/json', path: '/climate', text: '{"temperature":21.5,"humidity":48}' },
}

const programs = {
  curl: (/** @type {Publication} */ { url, key, type, text }) => `curl -sS -i ${shell(url)} \\
  -H ${shell(`Authorization: Thing ${key}`)} \\
  -H ${shell(`Content-Type: ${type}`)} \\
  -d ${shell(text)}
`,

  Python: (/** @type {Publication} */ { url, key, type, text }) => `from urllib.error import HTTPError
from urllib.request import Request, urlopen

request = Request(
    ${literal(url)},
    data=${literal(text)}.encode(),
    headers={
        'Authorization': ${literal(`Thing ${key}`)},
        'Content-Type': ${literal(type)},
    },
)
try:
    with urlopen(request) as response:
        print(response.status, response.read().decode())
except HTTPError as error:
    print(error.code, error.read().decode())
`,

  Node: (/** @type {Publication} */ { url, key, type, text }) => `const response = await fetch(${literal(url)}, {
  method: 'POST',
  headers: {
    Authorization: ${literal(`Thing ${key}`)},
    'Content-Type': ${literal(type)},
  },
  body: ${literal(text)},
})
console.log(response.status, await response.text())
`,

  Arduino: (/** @type {Publication} */ { url, key, type, text }) => `// ESP32: fill in the network.
#include <HTTPClient.h>
#include <WiFi.h>
${url.startsWith('https:') ? '#include <WiFiClientSecure.h>\n\nWiFiClientSecure client;' : '\nWiFiClient client;'}

void setup() {
  Serial.begin(115200);
  WiFi.begin("network", "password");
  while (WiFi.status() != WL_CONNECTED) delay(100);
${url.startsWith('https:') ? '  client.setCACert("-----BEGIN CERTIFICATE-----\\n…");  // of the authority of the server\n' : ''}}

void loop() {
  HTTPClient http;
  http.begin(client, ${JSON.stringify(url)});
  http.addHeader("Authorization", ${JSON.stringify(`Thing ${key}`)});
  http.addHeader("Content-Type", ${JSON.stringify(type)});
  int status = http.POST(R"(${text})");
  Serial.printf("%d %s\\n", status, http.getString().c_str());
  http.end();
  delay(10000);
}
`,

  // The content type is that of the payload.
  mosquitto_pub: (/** @type {Publication} */ { text, topic, ...to }) => `mosquitto_pub ${login(to)} -q 1 \\
  -t ${shell(topic)} \\
  -m ${shell(text)}
`,

  mosquitto_sub: (/** @type {Publication} */ { channel, ...to }) => `mosquitto_sub ${login(to)} -q 1 -v \\
  -t ${shell(`channels/${channel}/messages/#`)}
`,
}

const overMqtt = ['mosquitto_pub', 'mosquitto_sub']

/** @param {boolean} hasMqtt whether the address of MQTT is known */
export const languagesOf = hasMqtt =>
  /** @type {Language[]} */ (Object.keys(programs).filter(language => hasMqtt || !overMqtt.includes(language)))
export const formats = /** @type {Format[]} */ (Object.keys(payloads))

/**
 * @param {Language} language
 * @param {{ base: string, mqtt?: string | undefined, channel: string, thing: string, key: string, format: Format }} publication
 *   `base`: an address without a slash at its end; `mqtt`: that of MQTT as the server says, of which the port counts
 */
export function snippet(language, { base, mqtt, channel, thing, key, format }) {
  const { type, path, text } = payloads[format]
  // Older browsers read no such URL.
  const [, scheme, port] = /^(mqtts?):.*:(\d+)$/.exec(mqtt ?? '') ?? []
  const host = new URL(base).hostname.replace(/^\[|\]$/g, '')
  const broker = port === undefined ? undefined : { host, port, isTls: scheme === 'mqtts' }
  const topic = `channels/${channel}/messages${path}`
  return programs[language]({ url: `${base}/${topic}`, key, type, text, broker, thing, topic, channel })
}

/** The options of mosquitto's clients. @param {Pick<Publication, 'broker' | 'thing' | 'key'>} to */
function login({ broker, thing, key }) {
  const { host, port, isTls } = /** @type {Broker} */ (broker)
  return `-h ${shell(host)} -p ${port}${isTls ? ' --tls-use-os-certs' : ''} -u ${shell(thing)} -P ${shell(key)}`
}

/** Of Python and JavaScript. @param {string} text */
const literal = text => `'${text.replace(/[\\']/g, '\\$&')}'`

/** As one word of a POSIX shell. @param {string} text */
const shell = text => `'${text.replaceAll("'", `'\\''`)}'`
